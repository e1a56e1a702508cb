package explore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
)

// A visit is one acquisition, with what it takes to tell when it could have come. A hold that is
// downgraded ends one and begins another.
type visit struct {
	kind                       history.Kind
	permits                    int
	token                      int64
	called, acquired, released int64
}

// aheadOf reports whether v stands in the way of w for as long as it is not released.
func (v *visit) aheadOf(w *visit) bool {
	before := v.token < w.token || v.token == w.token && v.acquired < w.acquired
	return v != w && before && (excludes(v.kind, w.kind) || w.kind == history.Permits)
}

// slack is what a grant may take where nothing breaks: a few requests.
const slack = 250 * time.Millisecond

// late are the acquisitions in a quiet world that have taken longer than those ahead have.
func (l *ledger) late(path string) (late []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	visits := l.visits[path]
	for _, w := range visits {
		if w.called == 0 { // downgraded: it does not wait
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
		for _, v := range ahead { // from the one that leaves last on
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
