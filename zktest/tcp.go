package zktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/memnet"
)

// inBubble ends the test if t runs in a bubble, for which real connections are no good.
func inBubble(t testing.TB, what string) {
	t.Helper()
	if bubble() != "" {
		t.Fatalf("zktest: %s in a synctest bubble: the clock of a bubble stands still while a goroutine waits for a real connection. "+
			"Call it outside of synctest.Test, or connect by Host.Connect or Host.Dial", what)
	}
}

// ListenTCP opens a real port on the loopback interface for each member and returns their
// addresses, for programs that cannot take a dialer, such as other processes. A member that is dead
// listens when it is restarted. The faults of Hosts do not concern what connects there; see
// Host.ListenTCP. Of the four letter words ruok, srvr, stat, mntr, cons, dump, wchs, wchc and wchp
// are answered; a server's default is srvr alone. t fails in a synctest bubble, in which real
// connections do not work.
func (s *Server) ListenTCP(t testing.TB) []string {
	t.Helper()
	inBubble(t, "ListenTCP")
	var addrs []string
	for _, m := range s.members {
		// The first Listen picks the port, which a member that restarts takes again.
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("zktest: ListenTCP: %v", err)
		}
		addr := first.Addr().String()
		if err := m.listen(first, func() (net.Listener, error) { return net.Listen("tcp", addr) }); err != nil {
			t.Fatalf("zktest: ListenTCP: %v", err)
		}
		addrs = append(addrs, addr)
	}
	return addrs
}

// ListenTCP opens a real port on the loopback interface for each member, and returns their
// addresses. What connects there is on the host: all its faults concern it. Four letter words are
// answered at the ports of Server.ListenTCP only. The ports are closed at t's cleanup. t fails in a
// synctest bubble, in which real connections do not work.
func (h *Host) ListenTCP(t testing.TB) []string {
	t.Helper()
	inBubble(t, "ListenTCP")
	var addrs []string
	for i := range h.doors {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("zktest: ListenTCP: %v", err)
		}
		b := &bridge{h: h, to: i, conns: make(map[net.Conn]struct{})}
		b.ctx, b.cancel = context.WithCancel(context.Background())
		b.wg.Go(func() { b.accept(l) })
		t.Cleanup(func() {
			l.Close()
			b.stop()
		})
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// A bridge forwards real connections to the network in memory.
type bridge struct {
	h      *Host
	to     int // member
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil: stopped
}

func (b *bridge) accept(l net.Listener) {
	for {
		out, err := l.Accept()
		if err != nil {
			return
		}
		b.wg.Go(func() { b.carry(out) })
	}
}

// keep has stop close c; false: it has been stopped.
func (b *bridge) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		c.Close()
		return false
	}
	b.conns[c] = struct{}{}
	return true
}

func (b *bridge) stop() {
	b.cancel()
	b.mu.Lock()
	for c := range b.conns {
		c.Close()
	}
	b.conns = nil
	b.mu.Unlock()
	b.wg.Wait()
}

// carry serves one connection.
func (b *bridge) carry(out net.Conn) {
	defer out.Close()
	if !b.keep(out) {
		return
	}
	in, early, err := b.dial(out)
	if err != nil {
		reset(out)
		return
	}
	defer in.Close()
	if !b.keep(in) {
		return
	}
	if _, err := in.Write(early); err != nil {
		reset(out)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { pipe(in.(*memnet.Conn), out) })
	wg.Go(func() { pipe(out.(*net.TCPConn), in) })
	wg.Wait()
	b.mu.Lock()
	delete(b.conns, out)
	delete(b.conns, in)
	b.mu.Unlock()
}

// dial connects out's client to the member, and returns what it has sent meanwhile. The system has
// accepted its connection, and a partition may keep the host from the member. If the client closes
// before that ends, nothing arrives, as with a connection that is never made.
func (b *bridge) dial(out net.Conn) (in net.Conn, early []byte, err error) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var sent bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := io.Copy(&sent, out); !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	})
	in, err = b.h.reach(ctx, b.to)
	_ = out.SetReadDeadline(time.Unix(1, 0)) // ends the Copy
	wg.Wait()
	_ = out.SetReadDeadline(time.Time{})
	return in, sent.Bytes(), err
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// pipe forwards what is read, and how it ends.
func pipe(to halfCloser, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		reset(to)
		reset(from)
		return
	}
	_ = to.CloseWrite()
}

// reset ends a connection by a TCP reset, where Close would send what is left.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
