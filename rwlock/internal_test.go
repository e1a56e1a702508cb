package rwlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
)

const patience = 20 * time.Second // longer than any step

// granted returns a lock, and a grant on it that no reader holds yet.
func granted(s *contract.Stage) (*RWMutex, *queue.Grant) {
	s.Helper()
	m := New(locks.On(s.Connect()), s.Path)
	grant, err := m.queue.Acquire(s.Ctx, m.reads.request(), true)
	s.Must(err)
	s.InLine(1)
	return m, grant
}

// As soon as the last reader has left, no reader may join, although the node still exists.
func TestNoReaderJoinsAGrantThatIsOver(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, grant := granted(s)
		p := m.reads.open(grant, m.queue.NewSharing(), 1)
		if m.reads.join(s.Context()) != p || p.readers.CompareAndSwap(0, ended) || p.readers.Add(-2) != 0 || !p.readers.CompareAndSwap(0, ended) {
			s.Fatal("not joined, so there is nothing to see")
		}
		if grant.Err() != nil {
			s.Fatal("the grant is lost")
		}
		for range 3 {
			if m.reads.join(s.Context()) != nil || p.readers.CompareAndSwap(0, ended) {
				s.Error("a grant that was over went on")
			}
		}
		s.Must(grant.Release(s.Ctx))
	})
}

// Nor may a reader join a lost grant, even if no writer waits. A hook of the grant runs after the
// loss, and before the watch on its node has fired.
func TestNoReaderJoinsALostGrant(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn := s.Connect()
		m := New(locks.On(conn), s.Path)
		grant, err := m.queue.Acquire(s.Ctx, m.reads.request(), true)
		s.Must(err)
		p := m.reads.open(grant, m.queue.NewSharing(), 1)
		if m.reads.join(s.Context()) != p {
			s.Fatal("not joined, so there is nothing to see")
		}
		var shared, joined bool
		grant.OnEnd(func(error) {
			shared = grant.KnownToExist() && p.sharing.CanJoin()
			joined = m.reads.join(s.Context()) != nil
		})
		conn.Close()
		if !shared || joined {
			s.Errorf("the node may be shared: %v; joined a lost lock: %v", shared, joined)
		}
	})
}

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

// A reader that is canceled at the time of the grant returns an error, and does not hold.
func TestACancellationAtTheGrantLeavesNoHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := New(locks.On(s.Connect()), s.Path)
		p, err := m.reads.lock(&endsLate{Context: context.Background()})
		s.Is(err, context.Canceled)
		if p != nil {
			s.Error("an error, and a lock")
		}
		s.Empty()

		e := m.reads.wait()
		test.Within(s, patience, "it is granted", func() { <-e.done })
		s.InLine(1)
		m.reads.quit(e)
		s.Empty()

		one, two := m.reads.wait(), m.reads.wait()
		test.Within(s, patience, "both are granted", func() { <-one.done; <-two.done })
		m.reads.quit(one)
		s.Must(two.shared.grant.Err())
		s.InLine(1)
		m.reads.quit(two)
	})
}

// All waiting readers may be canceled at the time of the grant.
func TestAGrantThatNoReaderWaitsForIsReleased(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, grant := granted(s)
		e := &pendingRead{sharing: m.queue.NewSharing(), done: make(chan struct{})}
		m.reads.deliver(e, grant, nil)
		test.Within(s, patience, "it is delivered", func() { <-e.done })
		if e.shared != nil || m.reads.join(s.Context()) != nil {
			s.Error("there is a grant without readers")
		}
	})
}

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

// A waiter is canceled, and told to queue before it has left the line. It tells the next waiter.
func TestACanceledWriterThatIsToldToQueueTellsTheNext(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := New(locks.On(s.Connect()), s.Path, WithHandoff(100))
		h, err := m.Lock(s.Ctx)
		s.Must(err)
		first := contract.Begin(s, s.Ctx, m.Lock)
		s.Settle()
		next := contract.Begin(s, s.Ctx, m.Lock)
		s.Settle()
		c := m.writes
		c.mu.Lock()
		first.Cancel() // its goroutine is woken, and then waits for mu
		c.grant = nil  // the end of the series, as over does it
		c.nextLocked()
		c.mu.Unlock()
		s.Is(first.Failed(), context.Canceled)
		s.Must(h.Release(s.Ctx))
		s.Must(next.Granted().Release(s.Ctx))
	})
}
