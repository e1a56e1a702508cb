package interop

import (
	"context"
	"slices"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

// Curator's Revoker asks our holders and waiters to release, and our RequestRelease asks Curator's
// holders and waiters, which must have a listener before they queue.
func TestCuratorRevoker(t *testing.T) {
	onEach(t, func(s *story) {
		t := s.T
		theirs := s.curator()
		them := theirs.party("them")
		conn := locks.On(s.Connect())
		m, rw := reentrant.New(conn, s.Path), rwlock.New(conn, s.Path, rwlock.WithCuratorNames())
		for _, lock := range []struct {
			kind  string
			ours  zklocks.Locker
			queue func(context.Context) ([]zklocks.Member, error)
		}{{mutex, m, m.Queue}, {write, rw, rw.Queue}} {
			last := func() zklocks.Member {
				t.Helper()
				q, err := lock.queue(s.Ctx)
				s.Must(err)
				return q[len(q)-1]
			}
			asked := func(h *zklocks.Hold) {
				t.Helper()
				test.Within(t, soon, "it is notified that it is asked to release", func() { <-h.ReleaseRequested() })
				s.Must(h.Verify(s.Ctx))
				s.Must(h.Release(s.Ctx))
			}

			// The peer asks our holder, and we ask its waiter.
			h := contract.Begin(t, s.Ctx, lock.ours.Lock).Granted()
			node := s.asks(them, "revocable-"+lock.kind)
			if got := last(); got.Path != s.Path+"/"+node || got.ReleaseRequested {
				t.Errorf("their waiter is %+v, want the one of %s", got, node)
			}
			// Curator sets its watch after the create, and does not check the node's data then.
			test.Eventually(t, soon, "their waiter watches its node", func() bool {
				return slices.Contains(s.Venue.Watched(t, last().Session), s.Path+"/"+node)
			})
			s.Must(conn.RequestRelease(s.Ctx, last()))
			theirs.do("asked", "them")
			q, err := lock.queue(s.Ctx)
			s.Must(err)
			theirs.do("ask", "them", q[0].Path)
			asked(h)
			them.await()

			// The peer asks our waiter.
			waiter := contract.Begin(t, s.Ctx, lock.ours.Lock)
			s.InLine(2)
			theirs.do("ask", "them", last().Path)
			if !last().ReleaseRequested {
				t.Errorf("our waiter is %+v", last())
			}
			them.give()
			asked(waiter.Granted())

			// We ask the peer's holder.
			s.takes(them, "revocable-"+lock.kind)
			s.Must(conn.RequestRelease(s.Ctx, last()))
			theirs.do("asked", "them")
			if !them.holds() {
				t.Error("a request has ended their hold")
			}
			them.give()
			s.Empty()
		}
		theirs.part()
	})
}
