package rwlock

import (
	"context"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
)

// heldGrant returns a lock with handoffs, and a grant that one of its writers holds.
func heldGrant(s *contract.Stage) (*RWMutex, *queue.Grant) {
	s.Helper()
	m := New(locks.On(s.Connect()), s.Path, WithHandoff(5))
	grant, err := m.queue.Acquire(s.Ctx, m.writes.request, true)
	s.Must(err)
	m.writes.mu.Lock()
	defer m.writes.mu.Unlock()
	m.writes.grant = grant
	return m, grant
}

// follows starts a Lock that waits for the grant to be handed over.
func follows(s *contract.Stage, m *RWMutex) *contract.Attempt[*zklocks.Hold] {
	s.Helper()
	a := contract.Begin(s, s.Ctx, m.Lock)
	test.Eventually(s, patience, "it waits", func() bool { return m.Waiting() == 1 })
	return a
}

func lose(s *contract.Stage, grant *queue.Grant) {
	s.Helper()
	lost := grant.State().Lost()
	s.Must(s.Witness.Delete(s.Dir+"/"+test.Children(s, s.Witness, s.Dir)[0], -1))
	s.Lost(lost)
}

// A grant may be lost before the handoff knows, and while it is passed to the next writer.
func TestAGrantThatIsLostOnItsWayIsNotTaken(t *testing.T) {
	t.Parallel()
	for what, lost := range map[string]func(*RWMutex, *queue.Grant){
		"before": func(m *RWMutex, grant *queue.Grant) {
			if handed, _ := m.writes.handOn(grant, true); handed {
				t.Error("a lost grant was handed on")
			}
		},
		"after": func(m *RWMutex, _ *queue.Grant) {
			m.writes.mu.Lock()
			defer m.writes.mu.Unlock()
			m.writes.nextLocked()
		},
	} {
		t.Run(what, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				m, grant := heldGrant(s)
				a := follows(s, m)
				lose(s, grant)
				lost(m, grant)
				h := a.Granted()
				if h.Token() <= grant.Token() {
					s.Error("the token of the lost grant")
				}
				s.Must(h.Verify(s.Ctx))
				s.Must(h.Release(s.Ctx))
				s.Empty()
			})
		})
	}
}

// A writer that is given the grant when it stops waiting passes it on, or releases it.
func TestAGrantGivenToAWriterThatGivesUpGoesOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m, grant := heldGrant(s)
		next := follows(s, m)
		quits := func() {
			s := &localWaiter{granted: make(chan struct{}), grant: grant}
			close(s.granted)
			m.writes.quit(s, context.Canceled)
		}
		quits()
		h := next.Granted()
		if h.Token() != grant.Token() {
			s.Error("not the same grant")
		}
		quits() // no waiter is left
		s.Empty()
		s.Is(h.Verify(s.Ctx), zklocks.ErrReleased)
	})
}
