package rwlock

import (
	"context"
	"testing"
	"time"

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

// As soon as the last reader leaves no reader may join, although the node still exists.
func TestNoReaderJoinsAGrantThatIsOver(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, grant := granted(s)
		p := m.reads.open(grant, m.queue.NewSharing(), 1)
		if m.reads.join(s.Context()) != p || p.end() || p.readers.Add(-2) != 0 || !p.end() {
			s.Fatal("not joined, so there is nothing to see")
		}
		if grant.Err() != nil {
			s.Fatal("the grant is lost")
		}
		for range 3 {
			if m.reads.join(s.Context()) != nil || p.end() {
				s.Error("a grant that was over went on")
			}
		}
		s.Must(grant.Release(s.Ctx))
		s.Empty()
	})
}

// Nor a grant that is lost, whatever is known of writers.
func TestNoReaderJoinsALostGrant(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, grant := granted(s)
		p := m.reads.open(grant, m.queue.NewSharing(), 1)
		if m.reads.join(s.Context()) != p {
			s.Fatal("not joined, so there is nothing to see")
		}
		lost := grant.State().Lost()
		s.Must(s.Witness.Delete(s.Dir+"/"+test.Children(s, s.Witness, s.Dir)[0], -1))
		s.Lost(lost)
		if m.reads.join(s.Context()) != nil {
			s.Error("joined a lost lock")
		}
		for range 2 {
			_ = p.leave(s.Ctx)
		}
		s.Empty()
	})
}

// Nor when the session may have expired without the client knowing.
func TestNoReaderJoinsPastTheDeadline(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, packets := s.BehindFor(3 * time.Second)
		m := New(locks.On(conn), s.Path)
		grant, err := m.queue.Acquire(s.Ctx, m.reads.request(), true)
		s.Must(err)
		p := m.reads.open(grant, m.queue.NewSharing(), 1)
		if m.reads.join(s.Context()) != p {
			s.Fatal("not joined, so there is nothing to see")
		}
		packets.Mute()
		test.Eventually(s, patience, "the deadline has passed", func() bool { return grant.Err() != nil })
		ctx, cancel := context.WithTimeout(s.Ctx, time.Second) // it may send a request, and no server answers
		defer cancel()
		if m.reads.join(ctx) != nil {
			s.Error("joined a lost lock")
		}
		packets.Unmute()
		for range 2 {
			_ = p.leave(s.Ctx)
		}
		s.Empty()
	})
}

// endsLate ends between the first call of Err and the second, and closes no channel.
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

// A reader that is canceled at the time of the grant gets an error, and does not hold.
func TestACancellationAtTheGrantLeavesNoHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := New(locks.On(s.Connect()), s.Path)
		p, err := m.reads.lock(&endsLate{Context: context.Background()})
		s.Is(err, context.Canceled)
		if p != nil {
			s.Error("an error, and a lock")
		}
		s.Empty()

		e := m.reads.wait(s.Context())
		test.Within(s, patience, "it is granted", func() { <-e.done })
		s.InLine(1)
		m.reads.quit(e, context.Canceled)
		s.Empty()

		one, two := m.reads.wait(s.Context()), m.reads.wait(s.Context())
		test.Within(s, patience, "both are granted", func() { <-one.done; <-two.done })
		m.reads.quit(one, context.Canceled)
		s.Must(two.shared.grant.Err())
		s.InLine(1)
		m.reads.quit(two, context.Canceled)
		s.Empty()
	})
}

// The readers that waited may all have given up at the time of the grant.
func TestAGrantThatNoReaderWaitsForIsReleased(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, grant := granted(s)
		e := &pendingRead{sharing: m.queue.NewSharing(), done: make(chan struct{})}
		m.reads.deliver(e, grant, nil)
		test.Within(s, patience, "it is delivered", func() { <-e.done })
		if e.shared != nil || m.reads.join(s.Context()) != nil {
			s.Error("there is a grant without readers")
		}
		s.Empty()
	})
}

// A writer queues and gives up while readers hold. The listing of another reader shows no writer,
// so readers may join again. But idleLoop has ended, so the grant must not stay idle.
func TestAGrantDoesNotStayIdleAfterAWriterHasComeAndLeft(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := New(locks.On(s.Connect()), s.Path, WithReadLinger(time.Hour))
		g, err := m.reads.lock(s.Ctx)
		s.Must(err)
		s.Must(g.leave(s.Ctx))
		if m.reads.join(s.Context()) != g {
			s.Fatal("not joined, so there is nothing to see")
		}
		_, err = s.Witness.Set(s.Dir, nil, -1)
		s.Must(err)
		s.Settle()
		other, err := m.queue.Acquire(s.Ctx, m.reads.request(), true)
		s.Must(err)
		s.Must(other.Release(s.Ctx))
		if !g.sharing.CanJoin() {
			s.Fatal("a writer is known, so there is nothing to see")
		}
		s.Must(g.leave(s.Ctx))
		s.Empty()
	})
}

// Of two readers that leave at once either may be the last. Each notes the time, so the grant
// lingers from then on, also if it was idle before.
func TestTheLastTwoReadersLeaveAtOnce(t *testing.T) {
	for name, before := range map[string]bool{"it has been idle before": true, "it has not": false} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				const linger = 10 * time.Second
				m := New(locks.On(s.Connect()), s.Path, WithReadLinger(linger))
				if before {
					g, err := m.reads.lock(s.Ctx)
					s.Must(err)
					s.Must(g.leave(s.Ctx))
					time.Sleep(time.Second) // virtual: it is idle
				}
				a, err := m.reads.lock(s.Ctx)
				s.Must(err)
				b, err := m.reads.lock(s.Ctx)
				s.Must(err)
				if a != b {
					s.Fatal("not shared")
				}
				time.Sleep(linger + linger/2) // virtual: both read
				s.Must(a.leave(s.Ctx))
				s.Must(a.leave(s.Ctx))
				time.Sleep(linger - time.Second) // virtual: it lingers
				if len(test.Children(s, s.Witness, s.Dir)) == 0 {
					s.Error("released before it has lingered")
				}
				time.Sleep(2 * time.Second) // virtual: its time is up
				if len(test.Children(s, s.Witness, s.Dir)) > 0 {
					s.Error("it lingers on")
					a.releaseIdle(queue.NoWait)
				}
				s.Empty()
			})
		})
	}
}

// After a reconnect no reader may join the grant until another one has listed, so it must not stay
// idle: it would only be in the way of writers that do not wait.
func TestAGrantDoesNotStayIdleAfterAReconnect(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, packets := s.BehindFor(10 * time.Second)
		m := New(locks.On(conn), s.Path, WithReadLinger(time.Hour))
		g, err := m.reads.lock(s.Ctx)
		s.Must(err)
		s.Must(g.leave(s.Ctx))
		if m.reads.join(s.Context()) != g {
			s.Fatal("not joined, so there is nothing to see")
		}
		s.Settle() // idleLoop has begun
		client := m.queue.Client()
		before := client.Epoch()
		packets.Cut()
		test.Eventually(s, patience, "it is connected again", func() bool {
			return client.Epoch() != before && client.Up(conn.SessionID())
		})
		s.Must(g.leave(s.Ctx)) // which waits for the delete
		s.EmptyNow()
	})
}

// Two readers have tried at the same time, and each has a node. The first has gone when the second
// opens its grant, which readers join from then on.
func TestAGrantDoesNotStayIdleBesideAnother(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := New(locks.On(s.Connect()), s.Path, WithReadLinger(time.Hour))
		var grants []*queue.Grant
		var requests []queue.Request
		for range 2 {
			request := m.reads.request()
			grant, err := m.queue.Acquire(s.Ctx, request, false)
			s.Must(err)
			grants, requests = append(grants, grant), append(requests, request)
		}
		for i, grant := range grants {
			s.Must(m.reads.open(grant, requests[i].Sharing, 1).leave(s.Ctx))
			s.InLine(2 - i)
		}
		h, err := m.TryLock(s.Ctx)
		s.Must(err)
		s.Must(h.Release(s.Ctx))
		s.Empty()
	})
}
