package contract

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/observe"
)

// Events are what an observer has received, in order.
type Events struct {
	tb testing.TB

	mu  sync.Mutex
	all []any
}

// NewEvents begins a record.
func NewEvents(tb testing.TB) *Events { return &Events{tb: tb} }

// Observer returns an observer that writes the record.
func (e *Events) Observer() observe.Observer {
	return observe.Observer{
		Called: note[observe.Called](e), Queued: note[observe.Queued](e), Failed: note[observe.Failed](e),
		Granted: note[observe.Granted](e), Released: note[observe.Released](e), Lost: note[observe.Lost](e),
		Retried: note[observe.Retried](e),
	}
}

func note[E any](e *Events) func(E) {
	return func(event E) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, event)
	}
}

// Of returns the events of one type.
func Of[E any](e *Events) []E {
	e.mu.Lock()
	defer e.mu.Unlock()
	var some []E
	for _, event := range e.all {
		if event, ok := event.(E); ok {
			some = append(some, event)
		}
	}
	return some
}

// Next waits until there are n events of a type, and returns the last of them.
func Next[E any](e *Events, n int) E {
	e.tb.Helper()
	var some []E
	test.Eventually(e.tb, soon, fmt.Sprintf("event %d of type %T", n, *new(E)), func() bool {
		some = Of[E](e)
		return len(some) >= n
	})
	if len(some) > n {
		e.tb.Fatalf("%d events, want %d: %+v", len(some), n, some)
	}
	return some[n-1]
}

// Balanced asserts, when everything has ended, that every call and every hold had one end, and that
// the end says exactly when the call or the hold began.
func (e *Events) Balanced() {
	e.tb.Helper()
	sums := func() (waiting, holding int) {
		granted := len(Of[observe.Granted](e))
		return len(Of[observe.Called](e)) - granted - len(Of[observe.Failed](e)),
			granted - len(Of[observe.Released](e)) - len(Of[observe.Lost](e))
	}
	test.Eventually(e.tb, soon, "the last event", func() bool { // the observer receives a loss a moment later
		waiting, holding := sums()
		return waiting == 0 && holding == 0
	})
	calls, holds := begun(e, func(c observe.Called) time.Time { return c.At }), begun(e, func(g observe.Granted) time.Time { return g.At })
	granted := begun(e, func(g observe.Granted) time.Time { return g.At.Add(-g.Waited) })
	failed := begun(e, func(f observe.Failed) time.Time { return f.At.Add(-f.Waited) })
	released := begun(e, func(r observe.Released) time.Time { return r.At.Add(-r.Held) })
	lost := begun(e, func(l observe.Lost) time.Time { return l.At.Add(-l.Held) })
	if ends := sorted(granted, failed); !slices.Equal(sorted(calls), ends) {
		e.tb.Errorf("calls began at %v, and the ends of calls say %v", sorted(calls), ends)
	}
	if ends := sorted(released, lost); !slices.Equal(sorted(holds), ends) {
		e.tb.Errorf("holds began at %v, and the ends of holds say %v", sorted(holds), ends)
	}
}

// epoch has a reading of the monotonic clock.
var epoch = time.Now()

// begun returns when the call or the hold of each event began.
func begun[E any](e *Events, began func(E) time.Time) (at []time.Duration) {
	for _, event := range Of[E](e) {
		at = append(at, began(event).Sub(epoch))
	}
	return at
}

func sorted(times ...[]time.Duration) []time.Duration {
	return slices.Sorted(slices.Values(slices.Concat(times...)))
}
