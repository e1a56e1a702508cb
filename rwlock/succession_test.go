package rwlock

import (
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
)

// heldPlace is a lock that hands on, and a place that one of its writers holds.
func heldPlace(s *contract.Stage) (*RWMutex, *queue.Place) {
	s.Helper()
	m := New(locks.On(s.Connect()), s.Path, WithHandoff(5))
	place, err := m.line.Wait(s.Ctx, writeEntry(m.kinds.write))
	s.Must(err)
	m.writes.mu.Lock()
	defer m.writes.mu.Unlock()
	m.writes.place = place
	return m, place
}

// follows begins a Lock that waits for the place to be handed on.
func follows(s *contract.Stage, m *RWMutex) *contract.Attempt[*zklocks.Hold] {
	s.Helper()
	a := contract.Begin(s, s.Ctx, m.Lock)
	test.Eventually(s, patience, "it waits", func() bool { return m.Waiting() == 1 })
	return a
}

func lose(s *contract.Stage, place *queue.Place) {
	s.Helper()
	lost := place.Life().Lost()
	s.Must(s.Witness.Delete(s.Dir+"/"+test.Children(s, s.Witness, s.Dir)[0], -1))
	s.Lost(lost)
}

// A place may be lost before the chain has been told, and on its way to the next.
func TestAPlaceThatIsLostOnItsWayIsNotTaken(t *testing.T) {
	t.Parallel()
	for what, lost := range map[string]func(*RWMutex, *queue.Place){
		"before": func(m *RWMutex, place *queue.Place) {
			if handed, _ := m.writes.handOn(place, true); handed {
				t.Error("a lost place was handed on")
			}
		},
		"after": func(m *RWMutex, _ *queue.Place) {
			m.writes.mu.Lock()
			defer m.writes.mu.Unlock()
			m.writes.nextLocked()
		},
	} {
		t.Run(what, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				m, place := heldPlace(s)
				a := follows(s, m)
				lose(s, place)
				lost(m, place)
				h := a.Granted()
				if h.Token() <= place.Token() {
					s.Error("the token of the lost place")
				}
				s.Must(h.Verify(s.Ctx))
				s.Must(h.Release(s.Ctx))
				s.Empty()
			})
		})
	}
}

// Whoever is given the place in the moment in which it gives up passes it on, or
// gives it back.
func TestAPlaceGivenToOneWhoGivesUpGoesOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, place := heldPlace(s)
		next := follows(s, m)
		quits := func() {
			s := &successor{granted: make(chan struct{}), place: place}
			close(s.granted)
			m.writes.quit(s)
		}
		quits()
		h := next.Granted()
		if h.Token() != place.Token() {
			s.Error("not the same place")
		}
		quits() // no waiter is left
		s.Empty()
		s.Is(h.Verify(s.Ctx), zklocks.ErrReleased)
	})
}
