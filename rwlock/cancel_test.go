package rwlock_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/rwlock"
)

// endsLate is canceled between the first and the second call of Err, and closes no channel.
type endsLate struct {
	context.Context
	looked bool
}

func (c *endsLate) Err() error {
	if !c.looked {
		c.looked = true
		return nil
	}
	return context.Canceled
}

// A caller that is canceled at the time of the grant returns an error, and does not hold.
func TestACancellationAtTheGrantLeavesNoHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := rwlock.New(locks.On(s.Connect()), s.Path, rwlock.WithHandoff(3))
		for range 3 {
			for _, take := range []func(context.Context) (*zklocks.Hold, error){m.RLock, m.Lock} {
				h, err := take(&endsLate{Context: context.Background()})
				s.Is(err, context.Canceled)
				if h != nil {
					s.Error("an error, and a lock")
				}
				s.Empty()
			}
		}
	})
}

// The ctx of the waiter is canceled right before or after the handoff. The waiter returns an error
// and passes the lock on, or it holds the lock.
func TestALockHandedToACanceledWriterIsReleased(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, other := rwlock.New(locks.On(s.Connect()), s.Path, rwlock.WithHandoff(100)), rwlock.New(locks.On(s.Connect()), s.Path)
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
