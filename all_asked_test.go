package zklocks_test

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

// A hold of several locks is released as a whole, so a request to the node of one asks it.
func TestAHoldOfSeveralIsAskedAtAnyOfThem(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, other := locks.On(s.Connect()), s.Connect()
		rw, m := rwlock.New(conn, s.Path), reentrant.New(conn, s.Path+"-beside")
		for _, ask := range []int{0, 1, 2} { // one of them, or both
			h, err := zklocks.All(rw, m).Lock(s.Ctx)
			s.Must(err)
			again, err := m.Lock(h.Context(s.Ctx))
			s.Must(err)
			asked := h.ReleaseRequested()
			s.CatchUp(conn.Client())
			s.Must(rw.Downgrade(s.Ctx, h))
			s.CatchUp(conn.Client())
			select {
			case <-asked:
				s.Error("asked by a downgrade")
			default:
			}
			for i, list := range []func(context.Context) ([]zklocks.Member, error){rw.Queue, m.Queue} {
				if ask == i || ask == 2 {
					queue, err := list(s.Ctx)
					s.Must(err)
					s.Must(locks.On(other).RequestRelease(s.Ctx, queue[0]))
				}
			}
			test.Within(s, 20*time.Second, "it hears that it is asked to release", func() { <-asked })
			s.CatchUp(conn.Client())
			select {
			case <-again.ReleaseRequested():
				if ask == 0 {
					s.Error("the other lock is asked")
				}
			default:
				if ask > 0 {
					s.Error("the hold that rests on one of the nodes has not heard")
				}
			}
			s.Must(h.Verify(s.Ctx))
			s.Must(h.Release(s.Ctx))
			s.Must(again.Release(s.Ctx))
			s.Empty()
		}

		// A hold that listens in vain leaves no goroutine behind.
		h, err := zklocks.All(rw, m).Lock(s.Ctx)
		s.Must(err)
		asked := h.ReleaseRequested()
		s.CatchUp(conn.Client())
		s.Must(h.Release(s.Ctx))
		s.CatchUp(conn.Client())
		select {
		case <-asked:
			s.Error("asked by its release")
		default:
		}
	})
}
