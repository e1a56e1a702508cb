package memnet_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/memnet"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// both runs a test in virtual and in real time.
func both(t *testing.T, f func(t *testing.T)) {
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, f) })
	t.Run("real", f)
}

// pair is a network with a connection from host a to host b.
type pair struct {
	*memnet.Network
	listener net.Listener
	a, b     *memnet.Conn
}

func newPair(t *testing.T) *pair {
	t.Helper()
	n := memnet.New()
	l, err := n.Listen("b:1")
	must(t, err)
	p := &pair{Network: n, listener: l}
	p.a, p.b = p.connect(t)
	return p
}

func (p *pair) connect(t *testing.T) (a, b *memnet.Conn) {
	t.Helper()
	out, err := p.Host("a").DialContext(t.Context(), "tcp", "b:1")
	must(t, err)
	in, err := p.listener.Accept()
	must(t, err)
	t.Cleanup(func() { out.Close(); in.Close() })
	return out.(*memnet.Conn), in.(*memnet.Conn)
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	n, err := c.Write([]byte(text))
	if err != nil || n != len(text) {
		t.Fatalf("write: %d, %v", n, err)
	}
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v, want %q", b, err, want)
	}
}

// readError reads while there is no data, and asserts the error.
func readError(t *testing.T, c net.Conn, want error) {
	t.Helper()
	n, err := c.Read(make([]byte, 8))
	if n != 0 || !errors.Is(err, want) {
		t.Fatalf("read %d bytes, %v, want %v", n, err, want)
	}
}

// silent asserts that nothing has arrived, not even the end of the connection.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	readError(t, c, os.ErrDeadlineExceeded)
	must(t, c.SetReadDeadline(time.Time{}))
}

// Data that was written before the end of a stream arrives before the end.
func TestClose(t *testing.T) {
	both(t, func(t *testing.T) {
		p := newPair(t)
		fails := func(c net.Conn, want error) {
			t.Helper()
			if _, err := c.Write([]byte("x")); !errors.Is(err, want) {
				t.Errorf("write: %v, want %v", err, want)
			}
		}
		write(t, p.a, "question")
		must(t, p.a.CloseWrite())
		must(t, p.a.CloseWrite())
		fails(p.a, syscall.EPIPE)
		read(t, p.b, "question")
		readError(t, p.b, io.EOF)
		write(t, p.b, "answer")
		must(t, p.b.Close())
		readError(t, p.b, net.ErrClosed)
		fails(p.b, net.ErrClosed)
		if err := p.b.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		if err := p.b.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("deadline after close: %v", err)
		}
		read(t, p.a, "answer")
		readError(t, p.a, io.EOF)

		// The first write succeeds, and the other system answers that there is no such connection.
		a, b := p.connect(t)
		must(t, b.Close())
		write(t, a, "x")
		fails(a, syscall.EPIPE)
		readError(t, a, io.EOF) // the end had arrived before the reset

		a, b = p.connect(t)
		write(t, a, "unread")
		write(t, b, "answer")
		must(t, b.Close())
		read(t, a, "answer")
		readError(t, a, syscall.ECONNRESET) // because b has not read everything
		fails(a, syscall.ECONNRESET)
		if err := a.CloseWrite(); !errors.Is(err, syscall.ENOTCONN) {
			t.Errorf("close write: %v", err)
		}
	})
}

// A deadline comes before data. A Read uses the deadline that another goroutine has set last:
// sooner, later, past, or none.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		const never, arrives = 0, 2 * time.Hour
		for _, c := range []struct{ first, second, want time.Duration }{
			{time.Minute, time.Minute, time.Minute},
			{time.Hour, time.Minute, time.Minute},
			{time.Minute, time.Hour, time.Hour},
			{time.Hour, -time.Second, time.Second},
			{never, time.Minute, time.Minute},
			{time.Minute, never, arrives},
		} {
			began := time.Now()
			set := func(d time.Duration) {
				at := time.Time{}
				if d != never {
					at = began.Add(d)
				}
				must(t, p.a.SetReadDeadline(at))
			}
			set(c.first)
			time.AfterFunc(time.Second, func() { set(c.second) })
			time.AfterFunc(arrives, func() { write(t, p.b, "x") })
			_, err := p.a.Read(make([]byte, 1))
			if took := time.Since(began); took != c.want || errors.Is(err, os.ErrDeadlineExceeded) != (c.want != arrives) {
				t.Errorf("%v, then %v: %v after %v", c.first, c.second, err, took)
			}
			if c.want != arrives {
				time.Sleep(arrives)
				readError(t, p.a, os.ErrDeadlineExceeded)
				set(never)
				read(t, p.a, "x")
			}
		}
		must(t, p.a.SetWriteDeadline(time.Now()))
		_, err := p.a.Write([]byte("x"))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("write: %v", err)
		}
	})
}
