package rwlock

import (
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
)

// The grant is lost after its holder has begun to release it, and before the lock is passed on. A
// hook of the grant runs in between, before its watch has fired.
func TestALockLostDuringItsReleaseIsNotHandedOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn := s.Connect()
		m := New(locks.On(conn), s.Path, WithHandoff(100))
		_, err := m.Lock(s.Ctx)
		s.Must(err)
		next := contract.Begin(s, s.Ctx, m.Lock)
		s.Settle()
		grant := m.writes.grant
		if !grant.Exists(s.Ctx) {
			s.Fatal("the node is not known to exist, so nothing would be handed on")
		}
		var known, passed bool
		grant.OnEnd(func(error) {
			known = grant.KnownToExist()
			passed, _ = m.writes.pass(grant)
		})
		conn.Close()
		if !known || passed {
			s.Errorf("the node is known to exist: %v; the lost lock was handed on: %v", known, passed)
		}
		s.Is(next.Failed(), zk.ErrClosing)
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
				waits.Cancel() // the goroutine of the waiter is woken, and runs when the lock has been handed to the waiter
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
