package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Rules are what the locks of a record promise in addition to the rules that always hold.
type Rules struct {
	// Limits are the permits of semaphores. A hold of permits on a path that has none is a
	// violation, so that a limit cannot be forgotten.
	Limits []Limit

	// Handoff: exclusive holders may pass on one node, and so one token. The last of these holders
	// may downgrade the node, and then has the token of all of them.
	Handoff bool

	// Reentrant: holds of one owner with one token are one hold.
	Reentrant bool
}

// Limit is a number of permits and the time it was in force. If the number was changed, Since is
// when the change to this number was called, and Until is when the change to the next number had
// returned. So two limits overlap while it is unknown which of them applies.
type Limit struct {
	Path    string // "": every path
	Permits int
	Since   int64
	Until   int64 // 0: forever
}

// Rule names what a violation breaks.
type Rule string

const (
	Overlap   Rule = "overlap"     // two holds that exclude each other
	TooMany   Rule = "too many"    // more permits than the limit
	Token     Rule = "token order" // a later conflicting hold with a token that is not larger
	NoLimit   Rule = "no limit"    // a hold of permits on a path without a limit
	Malformed Rule = "malformed"   // a hold that ended before it began, or of an unknown kind
)

// Violation is one broken rule. The beginning of the last of Holds broke the rule.
type Violation struct {
	Rule  Rule
	Text  string
	Holds []Hold
}

// Check compares the holds of all recorders, in any order, pair by pair:
//
//   - an exclusive hold overlaps no other hold, a shared hold overlaps only shared holds, and
//     permits overlap only permits, in total not more than the limit;
//   - a hold that begins after a conflicting hold has ended has the larger token. Between permits
//     there is no such rule: the first grant may be the last to be recorded. A shared hold after an
//     exclusive hold of the same owner may have the same token, because the owner may have
//     downgraded.
//
// Intervals are half open: a hold may begin at the instant at which another ends.
//
// A changed limit binds a hold if it was in force at some time between Called and Acquired; holders
// keep their permits. So the permits held at one time may reach the largest limit that may have
// bound one of their holders. But when a hold was granted, the holds with smaller tokens were ahead
// of it. Together with these it must not exceed the limit that has bound the hold itself.
func Check(rules Rules, records ...[]Hold) *Report {
	report := &Report{all: slices.Concat(records...)}
	byPath := make(map[string][]Hold)
	for _, h := range report.all {
		switch {
		case h.until() < h.Acquired:
			report.add(Malformed, "ended before it began", h)
		case h.Kind != Exclusive && h.Kind != Shared && h.Kind != Permits:
			report.add(Malformed, fmt.Sprintf("unknown kind %q", h.Kind), h)
		default:
			byPath[h.Path] = append(byPath[h.Path], h)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		holds := byPath[path]
		if rules.Reentrant {
			holds = mergeReentries(holds)
		}
		holds = slices.DeleteFunc(holds, func(h Hold) bool { return h.until() == h.Acquired }) // conflicts with nothing
		slices.SortStableFunc(holds, byAcquired)
		for i, h := range holds {
			if h.Called != 0 && slices.ContainsFunc(holds[:i], func(o Hold) bool { return o.until() > h.Called }) {
				report.Contended++
			}
			for _, kind := range []Kind{Exclusive, Shared, Permits} {
				if conflict(kind, h.Kind) {
					report.exclusion(rules, holds, i, kind)
				}
			}
			if h.Kind == Permits {
				report.limit(rules, holds[:i], h)
			}
		}
	}
	return report
}

// exclusion compares the i-th hold with the holds of a kind that it excludes.
func (r *Report) exclusion(rules Rules, holds []Hold, i int, kind Kind) {
	h := holds[i]
	// The last holder of a series of handoffs may have downgraded.
	downgraded := rules.Handoff && kind == Exclusive && h.Kind == Shared && slices.ContainsFunc(holds, func(own Hold) bool {
		return own.Kind == Exclusive && own.Who == h.Who && own.Token == h.Token && own.until() <= h.Acquired
	})
	var over, ahead *Hold
	for j := range holds {
		other := &holds[j]
		switch {
		case j == i || other.Kind != kind:
		case other.until() > h.Acquired:
			if j < i && over == nil {
				over = other
			}
		case rules.badToken(*other, h) && !(downgraded && other.Token == h.Token):
			if ahead == nil || other.Token > ahead.Token {
				ahead = other
			}
		}
	}
	if over != nil {
		r.add(Overlap, fmt.Sprintf("%v, while held: %v; together for %s", h, *over, overlap(*over, h)), *over, h)
	}
	if ahead != nil {
		r.add(Token, fmt.Sprintf("%v, after %v", h, *ahead), *ahead, h)
	}
}

// limit checks the permits that are held after the beginning of h. A larger limit that has bound
// another of the holders counts, too, but not for the holds ahead of h.
func (r *Report) limit(rules Rules, earlier []Hold, h Hold) {
	limit, known := rules.limitFor(h)
	if !known {
		r.add(NoLimit, fmt.Sprintf("%v, and no limit is given", h), h)
		return
	}
	var holders []Hold
	all, ahead, met := h.permits(), h.permits(), limit
	for _, other := range earlier {
		if other.Kind != Permits || other.until() <= h.Acquired {
			continue
		}
		holders, all = append(holders, other), all+other.permits()
		theirs, _ := rules.limitFor(other)
		met = max(met, theirs)
		if other.Token != 0 && other.Token < h.Token {
			ahead += other.permits()
		}
	}
	if ahead > limit || all > met {
		r.add(TooMany, fmt.Sprintf("%v makes %d of %d, with those ahead of it %d of %d", h, all, met, ahead, limit), append(holders, h)...)
	}
}

// overlap returns how long two holds overlap.
func overlap(a, b Hold) string {
	end := min(a.until(), b.until())
	if end == math.MaxInt64 {
		return "to the end"
	}
	return time.Duration(end - max(a.Acquired, b.Acquired)).String()
}

// mergeReentries makes one hold of all holds that overlap or touch each other and have the same
// owner, kind and token.
func mergeReentries(holds []Hold) []Hold {
	type key struct {
		who   string
		kind  Kind
		token int64
	}
	sorted := slices.Clone(holds)
	slices.SortStableFunc(sorted, byAcquired)
	last := make(map[key]int)
	var merged []Hold
	for _, h := range sorted {
		k := key{h.Who, h.Kind, h.Token}
		i, ok := last[k]
		if ok && h.Kind == Exclusive && h.Acquired <= merged[i].until() {
			if h.until() > merged[i].until() {
				merged[i].Ended = h.Ended
			}
			continue
		}
		last[k] = len(merged)
		merged = append(merged, h)
	}
	return merged
}

func byAcquired(a, b Hold) int { return cmp.Compare(a.Acquired, b.Acquired) }

// limitFor returns the largest limit that may have bound h. It returns false if the rules have no
// limit for the path.
func (r Rules) limitFor(h Hold) (int, bool) {
	best, found := 0, false
	for _, l := range r.Limits {
		if l.Path != "" && l.Path != h.Path {
			continue
		}
		if l.Since > h.Acquired || l.Until != 0 && l.Until < h.Called {
			continue
		}
		best, found = max(best, l.Permits), true
	}
	return best, found
}

func conflict(a, b Kind) bool { return a == Exclusive || b == Exclusive || a != b }

// badToken reports whether the token of the hold "later" is wrong. The two holds conflict, and the
// hold "earlier" ended before the hold "later" began.
func (r Rules) badToken(earlier, later Hold) bool {
	if earlier.Token == 0 || later.Token == 0 || earlier.Token < later.Token {
		return false
	}
	if earlier.Token > later.Token {
		return true
	}
	handedOff := r.Handoff && earlier.Kind == Exclusive && later.Kind == Exclusive
	downgraded := earlier.Kind == Exclusive && later.Kind == Shared && earlier.Who == later.Who
	return !handedOff && !downgraded
}
