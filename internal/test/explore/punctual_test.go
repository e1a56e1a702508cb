package explore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
)

// A visit is an acquisition, and what determines its earliest grant. A downgrade begins another
// visit.
type visit struct {
	kind                       history.Kind
	permits                    int
	token                      int64
	called, acquired, released int64
	sure                       int64 // the last instant at which it certainly held, once it has ended
}

// aheadOf reports whether w must wait until v is released.
func (v *visit) aheadOf(w *visit) bool {
	before := v.token < w.token || v.token == w.token && v.acquired < w.acquired
	return v != w && before && (excludes(v.kind, w.kind) || w.kind == history.Permits)
}

// slack is how long a grant may take without faults: a few requests.
const slack = 250 * time.Millisecond

// hearing is how long the notification of a deletion may take, with its consequences.
func (p plan) hearing() time.Duration { return 20*time.Millisecond + 4*p.latency }

// late returns the acquisitions in a quiet world that were granted later than the holds ahead
// explain.
func (l *ledger) late(path string) (late []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	visits := l.visits[path]
	for _, w := range visits {
		if w.called == 0 { // a downgraded hold, which did not wait
			continue
		}
		var ahead []*visit
		for _, v := range visits {
			if v.aheadOf(w) && v.released > w.called {
				ahead = append(ahead, v)
			}
		}
		slices.SortFunc(ahead, func(a, b *visit) int { return cmp.Compare(b.released, a.released) })
		room := 0
		if w.kind == history.Permits {
			room = firstPermits - w.permits
		}
		due := w.called
		for _, v := range ahead { // beginning with the last to leave
			if room -= v.permits; room < 0 {
				due = v.released
				break
			}
		}
		if took := time.Duration(w.acquired - due); took > slack {
			late = append(late, finding{w.acquired, fmt.Sprintf("%s: a hold (%s, token %d) came %v late: called for at %v, due at %v",
				path, w.kind, w.token, took, time.Duration(w.called), time.Duration(due))})
		}
	}
	return late
}

// overtaking returns the readers of a quiet world that came while a writer was queued, and were
// granted before it: they joined a node ahead of it.
func (l *ledger) overtaking(path string) (early []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	visits := l.visits[path]
	for _, w := range visits {
		if w.kind != history.Exclusive {
			continue
		}
		for _, v := range visits {
			if v.kind == history.Shared && v.token < w.token && v.called > w.called+int64(slack) && v.called < w.acquired {
				early = append(early, finding{v.acquired, fmt.Sprintf("%s: a reader (token %d), called at %v, has overtaken a writer (token %d), called at %v",
					path, v.token, time.Duration(v.called), w.token, time.Duration(w.called))})
			}
		}
	}
	return early
}

// handedOn returns the series of handoffs that were longer than limit.
func (l *ledger) handedOn(path string, limit int) (often []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	row := make(map[int64]int)
	for _, v := range l.visits[path] {
		if v.kind != history.Exclusive {
			continue
		}
		if row[v.token]++; row[v.token] == limit+2 {
			often = append(often, finding{v.acquired, fmt.Sprintf("%s: the writers of token %d have handed it on %d times", path, v.token, limit+1)})
		}
	}
	return often
}
