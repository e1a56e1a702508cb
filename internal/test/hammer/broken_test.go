package hammer

import (
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
)

// A broken lock is found: by the record, and by the cells where they can see it.
func TestBrokenLocksAreCaught(t *testing.T) {
	for _, c := range []struct {
		recipe, how string
		rules       []history.Rule // any of these
		cells       bool
	}{
		{"rwlock", breakGrant, []history.Rule{history.Overlap}, true},
		{"rwlock", breakEarly, []history.Rule{history.Overlap}, true},
		{"rwlock", breakToken, []history.Rule{history.Token}, true},
		{"semaphore", breakGrant, []history.Rule{history.TooMany}, true},
		{"semaphore", breakEarly, []history.Rule{history.TooMany}, true},
		{"reentrant", breakGrant, []history.Rule{history.Overlap}, true},
		{"reentrant", breakEarly, []history.Rule{history.Overlap}, true},
		{"reentrant", breakToken, []history.Rule{history.Token}, true},
	} {
		t.Run(c.recipe+" "+c.how, func(t *testing.T) {
			s := fromEnv(t)
			s.For, s.Processes, s.Goroutines = 500*time.Millisecond, 2, 10
			s.Cycles = 25
			j := job{Recipe: c.recipe, Break: c.how, BreakEvery: 20}
			if c.recipe == "semaphore" {
				j.Permits, j.Ceiling = permits, permits
			}
			// On a busy machine half a second may bring too few holds for two to overlap.
			var found, seen bool
			for deadline := time.Now().Add(time.Minute); !found || c.cells && !seen; {
				r := hammer(t, s, j)
				found = found || slices.ContainsFunc(r.report.Violations, func(v history.Violation) bool {
					return slices.Contains(c.rules, v.Rule)
				})
				seen = seen || r.WrongTotal > 0
				if time.Now().After(deadline) {
					t.Fatalf("violations of %q in the record: %v, in the cells: %v; both are to be found:\n%v", c.rules, found, seen, r.report)
				}
			}
		})
	}
}
