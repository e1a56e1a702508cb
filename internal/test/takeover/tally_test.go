package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// loss is one hold that was lost. Times count from the fault.
type loss struct {
	what    string
	recipe  string
	timeout time.Duration
	own     bool          // the session lived on, and the holder's own delete granted the lock after the reconnect
	due     time.Duration // the deadline, or another cause that was known earlier
	told    time.Duration
	granted time.Duration
	state   zk.State // of the holder's connection, when the next one held
}

// idle is the name of no fault.
const idle = "no fault, the machine was busy"

func (l loss) margin() time.Duration { return l.granted - l.told }

func (l loss) String() string {
	return fmt.Sprintf("%s (%s, T %v): due after %v, told after %v, next granted after %v, margin %v",
		l.what, l.recipe, l.timeout, ms(l.due), ms(l.told), ms(l.granted), ms(l.margin()))
}

// tally is what a test has measured.
type tally struct {
	mu       sync.Mutex
	losses   []loss
	survived map[string]int // by what and timeout
	events   map[string]int // faults that struck several holders at once
}

func (y *tally) add(l loss) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if l.due < 0 { // the deadline had passed before: this machine did not schedule the client
		l.what = idle
	}
	y.losses = append(y.losses, l)
}

func (y *tally) survives(what string, timeout time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.survived == nil {
		y.survived = make(map[string]int)
	}
	y.survived[row(what, timeout)]++
}

func (y *tally) event(what string) { y.eventTimes(what, 1) }

func (y *tally) eventTimes(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.events == nil {
		y.events = make(map[string]int)
	}
	y.events[what] += n
}

func row(what string, timeout time.Duration) string { return fmt.Sprintf("%s | %v", what, timeout) }

// print shows all of it, as a table for docs/maintainers/testing.md.
func (y *tally) print(t *testing.T) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	rows := make(map[string][]loss)
	for _, l := range y.losses {
		rows[row(l.what, l.timeout)] = append(rows[row(l.what, l.timeout)], l)
	}
	var b strings.Builder
	b.WriteString("\n| fault | T | losses | held on | told: first | median | last | next holds: median | last | margin: smallest | median |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	names := make(map[string]bool)
	for name := range rows {
		names[name] = true
	}
	for name := range y.survived {
		names[name] = true
	}
	for _, name := range sortedKeys(names) {
		told, granted, margin := spread(rows[name], func(l loss) time.Duration { return l.told }),
			spread(rows[name], func(l loss) time.Duration { return l.granted }), spread(rows[name], loss.margin)
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s | %s | %s | %s |\n", name, len(rows[name]), y.survived[name],
			told.least, told.median, told.most, granted.median, granted.most, margin.least, margin.median)
	}
	for who, of := range map[string]func(loss) bool{
		"Connect, the session over":                   func(l loss) bool { return !l.own },
		"Connect, back in the session and letting go": func(l loss) bool { return l.own },
	} {
		these := slices.DeleteFunc(slices.Clone(y.losses), func(l loss) bool { return !of(l) })
		if len(these) == 0 {
			continue
		}
		margin, tooLate, blind := spread(these, loss.margin), 0, 0
		deadline := spread(these, func(l loss) time.Duration { return l.granted - l.due })
		for _, l := range these {
			if l.margin() <= 0 {
				tooLate++
			}
			if l.state == zk.StateHasSession {
				blind++
			}
		}
		fmt.Fprintf(&b, "%s: %d losses, margin %s to %s, median %s; of the deadline: from %s; %d woken too late; State() was HasSession at the next one's grant: %d\n",
			who, len(these), margin.least, margin.most, margin.median, deadline.least, tooLate, blind)
	}
	for _, what := range sortedKeys(y.events) {
		fmt.Fprintf(&b, "%d times: %s\n", y.events[what], what)
	}
	fmt.Fprintf(&b, "the slowest timer was %v late\n", slowest())
	t.Log(b.String())
}

// quantiles of nothing are "-".
type quantiles struct{ least, median, most string }

func spread[E any](of []E, by func(E) time.Duration) quantiles {
	if len(of) == 0 {
		return quantiles{"-", "-", "-"}
	}
	all := make([]time.Duration, len(of))
	for i, e := range of {
		all[i] = by(e)
	}
	slices.Sort(all)
	return quantiles{ms(all[0]).String(), ms(all[len(all)/2]).String(), ms(all[len(all)-1]).String()}
}

func ms(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
