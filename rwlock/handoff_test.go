package rwlock_test

import (
	"context"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/rwlock"
)

// queued starts a Lock of the same value after those before it have queued, so that the order is
// defined.
func (c *client) queued(n int) []*attempt {
	c.Helper()
	var line []*attempt
	for range n {
		line = append(line, contract.Begin(c, c.Ctx, c.Lock))
		c.Settle()
	}
	return line
}

// Callers of the value hold in the order of arrival, without a request, until the limit. Then it is
// the turn of a waiter in another process, and then of the rest.
func TestHandoffGoesRoundInTheProcessUpToItsLimit(t *testing.T) {
	const limit = 3
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := behind(s).with(rwlock.WithHandoff(limit)), direct(s)
		h := c.write()
		waits := other.waitWrite(2)
		line := c.queued(2*limit + 1)
		s.CatchUp(c.conn)
		token, before := h.Token(), requests(c)
		for i, a := range line[:limit] {
			ctx := h.Context(s.Ctx)
			release(s, h)
			s.Is(context.Cause(ctx), zklocks.ErrReleased)
			_, err := h.Multi(s.Ctx) // although the node still exists
			s.Is(err, zklocks.ErrReleased)
			h = a.Granted()
			waits.Waits()
			if h.Token() != token || !h.Held() {
				s.Errorf("hand-over %d: token %#x, held %v", i, h.Token(), h.Held())
			}
		}
		if n := requests(c) - before; n > 1 { // the watch on the shared node
			s.Errorf("%d requests for %d hand-overs", n, limit)
		}
		release(s, h)
		theirs := waits.Granted()
		line[limit].Waits()
		release(s, theirs)
		for i, a := range line[limit:] {
			h = a.Granted()
			if i == 0 && (theirs.Token() <= token || h.Token() <= theirs.Token()) || i > 0 && h.Token() != token {
				s.Errorf("caller %d of the second series: token %#x after %#x, and %#x of the other process", i, h.Token(), token, theirs.Token())
			}
			token = h.Token()
			release(s, h)
		}
	})
}

func TestADowngradedLockIsNotHandedOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := direct(s).with(rwlock.WithHandoff(100)), direct(s)
		h := c.write()
		line := c.queued(2)
		s.Must(c.Downgrade(s.Ctx, h))
		s.InLine(2)
		r, err := other.RLock(canceled(s.Ctx))
		if r != nil {
			s.Error("granted")
		}
		s.Is(err, context.Canceled)
		line[0].Waits()
		release(s, h)
		for _, a := range line {
			release(s, a.Granted())
		}
	})
}
