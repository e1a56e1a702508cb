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
	op     int32
	failed chan struct{}
}

func (c *brokenConn) Write(p []byte) (int, error) {
	if int32At(p, lengthSize+4) == c.op {
		close(c.failed)
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

func (c *brokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.failed:
		sleep(context.Background(), 50*time.Millisecond)
	default:
	}
	return n, err
}

// A write that fails ends the connection at once, and each of its requests, once.
func TestAWriteThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		f.wrap = func(c net.Conn) net.Conn {
			if f.handshakes.Load() > 0 {
				return c
			}
			return &brokenConn{c, opDelete, make(chan struct{})}
		}
		conn := f.connect()
		if err := conn.Client().Delete("/", -1); err != zk.ErrConnectionClosed || conn.IsClosed() {
			t.Error(err)
		}
		if _, _, err := conn.Client().Get("/"); err != nil {
			t.Error(err)
		}
		if n := f.handshakes.Load(); n != 2 {
			t.Errorf("%d handshakes", n)
		}
	})
}

// A clog blocks all that a client sends, as full buffers do if a server does not read.
type clog struct {
	net.Conn                 // the client's end
	shut, open chan struct{} // closed, one after the other
	over       chan struct{} // closed when the client has closed the connection
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

// Close notifies the holders and ends within a second, although it cannot send its request to end
// the session.
func TestCloseWhileNothingCanBeSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		pipe := &clog{shut: make(chan struct{}), open: make(chan struct{}), over: make(chan struct{})}
		f.wrap = func(c net.Conn) net.Conn { pipe.Conn = c; return pipe }
		conn := f.connect()
		var told monitor
		conn.Monitored(func() Monitor { return &told })
		close(pipe.shut)
		var waiting sync.WaitGroup
		for i := range 40 { // more than fit into the queue of go-zookeeper
			waiting.Go(func() {
				if i%2 == 0 {
					_, _, _ = conn.Client().Get("/")
				} else {
					_, _ = conn.Ask(t.Context(), AnySession, GetData("/"))
				}
			})
		}
		time.Sleep(time.Millisecond) // virtual: they wait
		began := time.Now()
		done := make(chan error)
		go func() { done <- conn.Close() }()
		time.Sleep(time.Millisecond) // virtual: it waits for the server
		if !conn.IsClosed() || told.checks.Load() == 0 {
			t.Error("the holders learn of the loss only when Close has given up")
		}
		waiting.Wait()
		if took := time.Since(began); took > 2*time.Millisecond {
			t.Errorf("the calls end after %v", took)
		}
		if err := <-done; err != errUnconfirmed {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took > closeLimit {
			t.Errorf("close took %v", took)
		}
		select {
		case <-pipe.over:
		default:
			t.Error("the network connection is open")
		}
	})
}
