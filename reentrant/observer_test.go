package reentrant_test

import (
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
)

func TestAReentryIsGrantedAndNotQueued(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		events := contract.NewEvents(s)
		mu := reentrant.New(locks.On(s.Connect()), s.Path, zklocks.WithObserver(events.Observer()))
		outer, err := mu.Lock(s.Ctx)
		s.Must(err)
		inner, err := mu.Lock(s.Ctx)
		s.Must(err)
		first, second := contract.Of[observe.Granted](events)[0], contract.Next[observe.Granted](events, 2)
		if first.Joined || !second.Joined || first.LockInfo != second.LockInfo {
			s.Errorf("%+v, %+v", first, second)
		}
		s.Must(inner.Release(s.Ctx))
		contract.Next[observe.Released](events, 1)
		s.Must(s.Witness.Delete(contract.NodeOf(outer), -1))
		s.Is(outer.Release(s.Ctx), zklocks.ErrLost)
		contract.Next[observe.Lost](events, 1)
		events.Balanced()
		s.Empty()
	})
}

// Two observers receive the events. An observer without functions is allowed.
func TestSeveralObservers(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		a, b := contract.NewEvents(s), contract.NewEvents(s)
		mu := reentrant.New(locks.On(s.Connect()), s.Path, zklocks.WithObserver(a.Observer()),
			zklocks.WithObserver(observe.Observer{}), zklocks.WithObserver(b.Observer()))
		h, err := mu.Lock(s.Ctx)
		s.Must(err)
		s.Must(h.Release(s.Ctx))
		for _, events := range []*contract.Events{a, b} {
			contract.Next[observe.Granted](events, 1)
			contract.Next[observe.Released](events, 1)
		}
		s.Empty()
	})
}
