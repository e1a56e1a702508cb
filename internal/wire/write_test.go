package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A brokenConn fails the first Write of an operation, and its Read fails later.
type brokenConn struct {
	net.Conn
	op     *atomic.Int32 // 0: none
	failed chan struct{}
}

func (c *brokenConn) Write(p []byte) (int, error) {
	if _, op := request(p); op != 0 && c.op.CompareAndSwap(op, 0) {
		close(c.failed)
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

func (c *brokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		select {
		case <-c.failed:
			sleep(context.Background(), 50*time.Millisecond)
		default:
		}
	}
	return n, err
}

func TestFailedWrites(t *testing.T) {
	connect := func(t *testing.T, opts ...Option) (conn *Conn, f *fakeServer, op *atomic.Int32) {
		op = new(atomic.Int32)
		f = newFakeServer(t).start()
		f.wrap = func(c net.Conn) net.Conn { return &brokenConn{c, op, make(chan struct{})} }
		return f.connect(opts...), f, op
	}
	answers := func(t *testing.T, conn *Conn) {
		t.Helper()
		got := make(chan error, 1)
		go func() {
			for {
				// The call may be sent at the same time as the packet whose write fails. Then it is
				// lost.
				if _, _, err := conn.Client().Get("/"); !errors.Is(err, zk.ErrConnectionClosed) || conn.IsClosed() {
					got <- err
					return
				}
			}
		}()
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(3 * time.Second):
			t.Fatal("the client hangs")
		}
		if conn.IsClosed() {
			t.Error("taken for closed")
		}
	}

	// The write has failed, and go-zookeeper has not noticed it. Its send loop still takes requests
	// and fails them. Callers must not mistake that for a Close.
	t.Run("of a call", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			conn, _, op := connect(t)
			op.Store(opGetData)
			if _, _, err := conn.Client().Get("/"); !errors.Is(err, zk.ErrConnectionClosed) {
				t.Errorf("got %v, want a lost connection", err)
			}
			answers(t, conn)
		})
	})

	// go-zookeeper would answer this request twice. Its channel has room for one answer.
	t.Run("of credentials sent again", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			conn, f, op := connect(t, WithDigestAuth("ann", "secret"))
			op.Store(opGetData)
			conn.Client().Get("/")
			op.Store(opSetAuth)
			answers(t, conn)
			if n := f.handshakes.Load(); n < 2 {
				t.Errorf("%d handshakes", n)
			}
		})
	})
}

// A clog blocks all that a client sends, as full buffers do if a server does not read.
type clog struct {
	net.Conn                 // go-zookeeper's end
	shut, open chan struct{} // closed, one after the other
	over       chan struct{} // closed when go-zookeeper has closed the connection
	once       sync.Once
}

func (c *clog) Write(p []byte) (int, error) {
	select {
	case <-c.shut:
		select {
		case <-c.open:
		case <-c.over:
			return 0, net.ErrClosed
		}
	default:
	}
	return c.Conn.Write(p)
}

func (c *clog) Close() error {
	c.once.Do(func() { close(c.over) })
	return c.Conn.Close()
}

// A monitor counts the calls of Check.
type monitor struct{ checks atomic.Int32 }

func (m *monitor) Check() { m.checks.Add(1) }

// Close notifies the holders and ends go-zookeeper, although go-zookeeper cannot send its request
// to end the session, or cannot even put the request into its queue.
func TestCloseWhileNothingCanBeSent(t *testing.T) {
	for name, c := range map[string]struct {
		waiting int // calls
		within  time.Duration
	}{
		"room in the client's queue": {5, time.Second},
		"the client's queue is full": {40, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t).start()
				pipe := &clog{shut: make(chan struct{}), open: make(chan struct{}), over: make(chan struct{})}
				f.wrap = func(c net.Conn) net.Conn { pipe.Conn = c; return pipe }
				conn := f.connect()
				var told monitor
				conn.Monitored(func() Monitor { return &told })
				close(pipe.shut)
				var waiting sync.WaitGroup
				for range c.waiting {
					waiting.Go(func() { _, _, _ = conn.Client().Get("/") })
				}
				time.Sleep(time.Millisecond)                                       // virtual: they wait
				time.AfterFunc(2500*time.Millisecond, func() { close(pipe.open) }) // virtual: before the write of go-zookeeper times out
				began := time.Now()
				done := make(chan error)
				go func() { done <- conn.Close() }()
				time.Sleep(time.Millisecond) // virtual: it waits for the server
				if !conn.IsClosed() || told.checks.Load() == 0 {
					t.Error("the holders are told only when the client has given up")
				}
				if err := <-done; err != errUnconfirmed {
					t.Errorf("close: %v", err)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("close took %v", took)
				}
				select {
				case <-pipe.over:
				case <-time.After(time.Millisecond): // virtual
					t.Error("the client goes on")
					pipe.Close()
				}
				waiting.Wait()
			})
		})
	}
}
