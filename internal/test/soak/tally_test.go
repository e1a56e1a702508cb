package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// loss is one hold that a fault has struck. The times count from the fault.
type loss struct {
	what     string
	timeout  time.Duration
	survived bool          // the hold survived, so there are no times
	due      time.Duration // the deadline, or the instant of another cause that was known earlier
	told     time.Duration // when a goroutine that waits on Lost woke up
	granted  time.Duration // when the next caller's call had returned
}

// tally is what a run has measured.
type tally struct {
	mu     sync.Mutex
	losses map[string][]loss // by fault and timeout
}

func (y *tally) add(l loss) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if l.due < 0 { // the deadline had passed before: this machine did not schedule the client
		l.what = "no fault, the machine was busy"
	}
	if y.losses == nil {
		y.losses = make(map[string][]loss)
	}
	row := fmt.Sprintf("%s | %v", l.what, l.timeout)
	y.losses[row] = append(y.losses[row], l)
}

// print prints the tally, as a table for docs/maintainers/testing.md.
func (y *tally) print(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| fault | T | losses | held on | notified: first | median | last | next holds: median | last | margin: smallest | median |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	late := 0
	for _, row := range slices.Sorted(maps.Keys(y.losses)) {
		lost := slices.DeleteFunc(slices.Clone(y.losses[row]), func(l loss) bool { return l.survived })
		of := func(by func(loss) time.Duration) (q quantiles) {
			for _, l := range lost {
				q = append(q, by(l))
			}
			slices.Sort(q)
			return q
		}
		told, granted := of(func(l loss) time.Duration { return l.told }), of(func(l loss) time.Duration { return l.granted })
		margin := of(func(l loss) time.Duration { return l.granted - l.told })
		for _, m := range margin {
			if m <= 0 {
				late++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s | %s | %s | %s |\n", row, len(lost), len(y.losses[row])-len(lost),
			told.at(0), told.at(0.5), told.at(1), granted.at(0.5), granted.at(1), margin.at(0), margin.at(0.5))
	}
	t.Logf("%s%d woken after the next grant", b.String(), late)
}

// quantiles are sorted.
type quantiles []time.Duration

func (q quantiles) at(share float64) string {
	if len(q) == 0 {
		return "-"
	}
	return ms(q[int(share*float64(len(q)-1)+0.5)]).String()
}

func ms(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
