package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
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
	connect := func(t *testing.T, opts ...Option) (conn *zk.Conn, f *fakeServer, op *atomic.Int32) {
		op = new(atomic.Int32)
		f = newFakeServer(t).start()
		opts = append(opts, WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := f.dial(ctx, network, address)
			return &brokenConn{c, op, make(chan struct{})}, err
		}))
		return f.connect(opts...), f, op
	}
	answers := func(t *testing.T, conn *zk.Conn) {
		t.Helper()
		got := make(chan error, 1)
		go func() {
			for {
				// It may be sent beside the write that fails, and be lost with the connection.
				if _, _, err := conn.Get("/"); !errors.Is(err, zk.ErrConnectionClosed) || liveness.Of(conn).IsClosed() {
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
		if liveness.Of(conn).IsClosed() {
			t.Error("taken for closed")
		}
	}

	// Between the packetConn's error and the client's, the client's send loop still takes requests,
	// and fails them. That must not look like a Close.
	t.Run("of a call", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			conn, _, op := connect(t)
			op.Store(opGetData)
			if _, _, err := conn.Get("/"); !errors.Is(err, zk.ErrConnectionClosed) {
				t.Errorf("got %v, want a lost connection", err)
			}
			answers(t, conn)
		})
	})

	// The client answers such a request twice, on a channel of one.
	t.Run("of credentials sent again", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			conn, f, op := connect(t, WithDigestAuth("ann", "secret"))
			op.Store(opGetData)
			conn.Get("/")
			op.Store(opSetAuth)
			answers(t, conn)
			if n := f.handshakes.Load(); n < 2 {
				t.Errorf("%d handshakes", n)
			}
		})
	})
}
