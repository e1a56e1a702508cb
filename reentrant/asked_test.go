package reentrant_test

import (
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
)

// All holds of an owner have one node: each is notified of a request to release, whoever wrote it.
func TestAllHoldsOfAnOwnerAreAsked(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := newClient(s), newClient(s)
		outer := c.lock(s.Ctx)
		inner := c.lock(s.Ctx)
		asked := inner.ReleaseRequested()
		queue, err := other.Queue(s.Ctx)
		s.Must(err)
		s.Must(locks.On(other.conn).RequestRelease(s.Ctx, queue[0]))
		test.Within(s, soon, "it hears that it is asked to release", func() { <-asked })
		again := c.lock(s.Ctx)
		for _, h := range []*zklocks.Hold{again, inner, outer} {
			select {
			case <-h.ReleaseRequested():
			default:
				s.Error("a hold of the owner was not notified")
			}
			s.Must(h.Release(s.Ctx))
		}
		s.Empty()
	})
}
