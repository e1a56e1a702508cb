package rwlock_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/rwlock"
)

type attempt = contract.Attempt[*zklocks.Hold]

// client is an RWMutex on its own connection.
type client struct {
	*contract.Stage
	*rwlock.RWMutex
	conn  *wire.Conn
	proxy *proxy.Proxy
}

func direct(s *contract.Stage) *client {
	s.Helper()
	conn := s.Connect()
	return &client{s, rwlock.New(locks.On(conn), s.Path), conn, nil}
}

func behind(s *contract.Stage) *client {
	s.Helper()
	conn, p := s.Behind()
	return &client{s, rwlock.New(locks.On(conn), s.Path), conn, p}
}

func (c *client) write() *zklocks.Hold {
	c.Helper()
	return contract.Begin(c, c.Ctx, c.Lock).Granted()
}
func (c *client) read() *zklocks.Hold {
	c.Helper()
	return contract.Begin(c, c.Ctx, c.RLock).Granted()
}

// waitWrite starts a Lock whose node is the n-th in the queue.
func (c *client) waitWrite(n int) *attempt {
	c.Helper()
	a := contract.Begin(c, c.Ctx, c.Lock)
	c.InLine(n)
	return a
}

func (c *client) waitRead(n int) *attempt {
	c.Helper()
	a := contract.Begin(c, c.Ctx, c.RLock)
	c.InLine(n)
	return a
}

func release(s *contract.Stage, h *zklocks.Hold) { s.Helper(); s.Must(h.Release(s.Ctx)) }

const soon = 20 * time.Second // longer than any step

func TestAQueuedWriterIsNotOvertakenByLaterReaders(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		first, w := direct(s), direct(s)
		h := first.read()
		for _, c := range []*client{first, w} {
			_, err := c.TryLock(s.Ctx)
			s.Is(err, zklocks.ErrBusy)
		}
		writer := w.waitWrite(2)
		var later []*attempt
		for i := range 5 {
			later = append(later, direct(s).waitRead(3+i))
		}
		_, err := first.TryRLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
		s.CatchUp(first.conn)
		for _, a := range append(later, writer) {
			a.Waits()
		}

		release(s, h)
		wrote := writer.Granted()
		s.CatchUp(first.conn)
		for _, a := range later {
			a.Waits()
		}
		release(s, wrote)
		for _, a := range later { // all hold together: none is released before the last is granted
			if h := a.Granted(); h.Token() <= wrote.Token() {
				s.Errorf("token %d after %d", h.Token(), wrote.Token())
			}
		}
		for _, a := range later {
			release(s, a.Hold)
		}
	})
}
