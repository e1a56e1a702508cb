package bench

import (
	"context"
	"testing"
	"time"
)

// With locks that take no time, every grant in the measured time is counted, except a few between
// the end and the next read of the clock.
func TestShortOperationsAreAllCounted(t *testing.T) {
	const workers = 4
	crew := make([]*worker, workers)
	grants, within := make([]int64, workers), make([]int64, workers)
	for i := range crew {
		w := &worker{reads: 100}
		release := func() error { return nil }
		w.acquire = func(context.Context, bool) (func() error, error) {
			grants[i]++
			if now := time.Now(); !now.Before(w.window.from) && now.Before(w.window.until) {
				within[i]++
			}
			return release, nil
		}
		crew[i] = w
	}
	a := run(t.Context(), job{Warm: 50, Measure: 200}, crew)
	var cycles, operations, timed int64
	for i, w := range crew {
		cycles += grants[i]
		operations += within[i]
		timed += w.latencies.total
	}
	const slack = 2 * every * workers // at both ends
	if a.Cycles != cycles || max(a.Operations-operations, operations-a.Operations) > slack {
		t.Errorf("%d cycles and %d operations, want %d and %d", a.Cycles, a.Operations, cycles, operations)
	}
	if a.Operations-timed < 0 || a.Operations-timed > slack {
		t.Errorf("the latencies stand for %d operations of %d", timed, a.Operations)
	}
}

// A long operation is timed, and so is the next.
func TestLongOperationsAreAllTimed(t *testing.T) {
	w := &worker{window: &window{until: time.Now().Add(time.Hour)}}
	var pause time.Duration
	w.acquire = func(context.Context, bool) (func() error, error) {
		time.Sleep(pause) // waits for nothing: it is the long operation
		return func() error { return nil }, nil
	}
	cycles := func(n int) (looks int) {
		for range n {
			if w.untimed == 0 {
				looks++
			}
			if !w.cycle(t.Context()) {
				t.Fatal("it is over")
			}
		}
		return looks
	}
	pause = 2 * short
	if looks := cycles(20); looks != 20 {
		t.Errorf("%d of 20 long ones were timed", looks)
	}
	if w.latencies.total != 20 || w.latencies.quantile(0) < pause {
		t.Errorf("%d latencies, the shortest %v", w.latencies.total, w.latencies.quantile(0))
	}
	pause = 0
	if looks := cycles(1000 * every); looks < 1000 || looks > 1100 { // some are long by accident
		t.Errorf("%d of %d short ones were timed", looks, 1000*every)
	}
}
