package rwlock

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
)

// The grant is lost after its holder has begun to release it, and before the handoff has ended: the
// holder's hook runs in between.
func TestALockLostDuringItsReleaseIsNotHandedOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := New(locks.On(s.Connect()), s.Path, WithHandoff(100))
		h, err := m.Lock(s.Ctx)
		s.Must(err)
		next := contract.Begin(s, s.Ctx, m.Lock)
		s.Settle()
		grant := m.writes.grant
		if !grant.Exists(s.Ctx) {
			s.Fatal("the node is not known to exist, so nothing would be handed on")
		}
		grant.OnEnd(hold.Holders, func(error) { s.Is(h.Release(s.Ctx), zklocks.ErrLost) })
		grant.State().Lose(errors.New("its node was deleted"))
		if h := next.Granted(); !h.Held() {
			s.Error("the lost lock was handed on")
		} else {
			s.Must(h.Release(s.Ctx))
		}
		s.Empty()
	})
}

// The ctx of the waiter is canceled right before or after the handoff. The waiter returns an error
// and passes the lock on, or it holds the lock.
func TestALockHandedToACanceledWriterIsReleased(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, other := New(locks.On(s.Connect()), s.Path, WithHandoff(100)), New(locks.On(s.Connect()), s.Path)
		for i := range 200 {
			h, err := m.Lock(s.Ctx)
			s.Must(err)
			waits := contract.Begin(s, s.Ctx, m.Lock)
			synctest.Wait()
			if i%2 == 0 {
				waits.Cancel() // its goroutine is woken, and runs when the lock has been handed to it
				s.Must(h.Release(s.Ctx))
			} else {
				s.Must(h.Release(s.Ctx))
				waits.Cancel()
			}
			if <-waits.Done; waits.Err == nil {
				s.Must(waits.Hold.Release(s.Ctx))
			}
			synctest.Wait()
			h, err = other.TryLock(s.Ctx)
			if err != nil {
				s.Fatalf("round %d: nobody holds the lock: %v", i, err)
			}
			s.Must(h.Release(s.Ctx))
		}
	})
}
