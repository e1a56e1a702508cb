package history

import (
	"cmp"
	"fmt"
	"slices"
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
	Path  string
	Text  string
	Holds []Hold
}

// Check sweeps over the holds of all recorders, in any order, in O(n log n):
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
	var all []Hold
	for _, r := range records {
		all = append(all, r...)
	}
	report := newReport(all)
	byPath := make(map[string][]Hold)
	for _, h := range all {
		switch {
		case h.until() < h.Acquired:
			report.add(Violation{Malformed, h.Path, "ended before it began", []Hold{h}})
		case h.Kind != Exclusive && h.Kind != Shared && h.Kind != Permits:
			report.add(Violation{Malformed, h.Path, fmt.Sprintf("unknown kind %q", h.Kind), []Hold{h}})
		default:
			byPath[h.Path] = append(byPath[h.Path], h)
		}
	}
	paths := make([]string, 0, len(byPath))
	for path := range byPath {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		holds := byPath[path]
		if rules.Reentrant {
			holds = mergeReentries(holds)
		}
		newSweep(rules, path, holds, report).run()
	}
	return report
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

// behind reports whether another hold of permits was ahead of h in the queue.
func (h Hold) behind(other Hold) bool { return other.Token != 0 && other.Token < h.Token }

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
