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

// granted is a lock, and its place in line, which nobody holds by yet.
func granted(s *contract.Stage) (*RWMutex, *queue.Place) {
	s.Helper()
	m := New(locks.On(s.Connect()), s.Path)
	place, err := m.line.Wait(s.Ctx, m.reads.entry())
	s.Must(err)
	s.InLine(1)
	return m, place
}

// From the moment at which the last one says that it leaves nobody may join, though
// the node is still there.
func TestNobodyJoinsAPartyThatIsOver(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, place := granted(s)
		p := m.reads.open(place, &queue.Company{}, 1)
		if m.reads.join(s.Context()) != p || p.end() || p.members.Add(-2) != 0 || !p.end() {
			s.Fatal("not joined, so there is nothing to see")
		}
		if place.Look() != nil {
			s.Fatal("the place is lost")
		}
		for range 3 {
			if m.reads.join(s.Context()) != nil || p.end() {
				s.Error("a party that was over went on")
			}
		}
		s.Must(place.Unlock(s.Ctx))
		s.Empty()
	})
}

// Nor one whose place is lost, whatever its company says: on a connection that
// internal/wire did not make that is all there is to see of a disconnect.
func TestNobodyJoinsALostPlace(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, place := granted(s)
		p := m.reads.open(place, &queue.Company{}, 1)
		if m.reads.join(s.Context()) != p {
			s.Fatal("not joined, so there is nothing to see")
		}
		lost := place.Life().Lost()
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

// Nor when the session may have run out, and nothing has been heard.
func TestNobodyJoinsPastTheDeadline(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, packets := s.BehindFor(3 * time.Second)
		m := New(locks.On(conn), s.Path)
		place, err := m.line.Wait(s.Ctx, m.reads.entry())
		s.Must(err)
		p := m.reads.open(place, &queue.Company{}, 1)
		if m.reads.join(s.Context()) != p {
			s.Fatal("not joined, so there is nothing to see")
		}
		packets.Mute()
		test.Eventually(s, patience, "the deadline has passed", func() bool { return place.Look() != nil })
		ctx, cancel := context.WithTimeout(s.Ctx, time.Second) // it may ask, and no server answers
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

// endsLate ends between the first look at it and the second, and wakes nobody.
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

// Whoever is canceled in the moment of the grant gets an error, and is not inside.
func TestACancellationAtTheGrantLeavesNobodyInside(t *testing.T) {
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
		m.reads.quit(e)
		s.Empty()
	})
}

// Whoever waited may have given up in the moment of the grant.
func TestAPlaceThatNobodyWaitsForIsGivenBack(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, place := granted(s)
		e := &errand{company: &queue.Company{}, done: make(chan struct{})}
		m.reads.deliver(e, place, nil)
		test.Within(s, patience, "it is delivered", func() { <-e.done })
		if e.party != nil || m.reads.join(s.Context()) != nil {
			s.Error("there is a party without members")
		}
		s.Empty()
	})
}
