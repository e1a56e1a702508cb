package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// sweep goes through the holds of one path, in the order of their beginnings. At each beginning it
// first removes the holds that have ended by then.
type sweep struct {
	rules  Rules
	path   string
	holds  []Hold // by Acquired
	ends   []int  // indexes of holds, by end
	report *Report

	active  map[int]struct{}
	count   map[Kind]int // of active
	permits int          // held by active

	past        map[Kind]*tokens
	lastEnd     int64
	lastHolder  string // of the previous exclusive hold
	hadExcluded bool
}

// tokens are the tokens of holds that have ended. Two holders for each token are enough, because
// the only rule that compares owners needs one holder that is not the owner of the current hold.
// All holders are kept only if the rules allow handoffs.
type tokens struct {
	max   Hold // the hold with the largest token
	equal map[int64][]Hold
	keep  int
}

func (t *tokens) add(h Hold) {
	if h.Token == 0 {
		return
	}
	if t.max.Token == 0 || h.Token > t.max.Token {
		t.max = h
	}
	known := t.equal[h.Token]
	if len(known) < t.keep && !slices.ContainsFunc(known, func(k Hold) bool { return k.Who == h.Who }) {
		t.equal[h.Token] = append(known, h)
	}
}

func newSweep(rules Rules, path string, holds []Hold, report *Report) *sweep {
	s := &sweep{
		rules:  rules,
		path:   path,
		report: report,
		active: make(map[int]struct{}),
		count:  make(map[Kind]int),
		past:   make(map[Kind]*tokens),
	}
	for _, h := range holds {
		if h.until() > h.Acquired { // an empty interval conflicts with nothing
			s.holds = append(s.holds, h)
		}
	}
	slices.SortStableFunc(s.holds, byAcquired)
	for i := range s.holds {
		s.ends = append(s.ends, i)
	}
	slices.SortStableFunc(s.ends, func(a, b int) int {
		return cmp.Compare(s.holds[a].until(), s.holds[b].until())
	})
	keep := 2
	if rules.Handoff {
		keep = math.MaxInt
	}
	for _, kind := range []Kind{Exclusive, Shared, Permits} {
		s.past[kind] = &tokens{equal: make(map[int64][]Hold), keep: keep}
	}
	return s
}

func (s *sweep) run() {
	next := 0
	for i, h := range s.holds {
		for next < len(s.ends) && s.holds[s.ends[next]].until() <= h.Acquired {
			s.end(s.ends[next])
			next++
		}
		s.contention(h)
		s.exclusion(h)
		s.tokens(h)
		s.begin(i)
		if h.Kind == Permits {
			s.limit(h)
		}
	}
}

func (s *sweep) end(i int) {
	h := s.holds[i]
	delete(s.active, i)
	s.count[h.Kind]--
	if h.Kind == Permits {
		s.permits -= h.permits()
	}
	s.past[h.Kind].add(h)
	s.lastEnd = h.until()
}

func (s *sweep) begin(i int) {
	h := s.holds[i]
	s.active[i] = struct{}{}
	s.count[h.Kind]++
	if h.Kind == Permits {
		s.permits += h.permits()
	}
}

// contention counts what shows that callers contended for the lock.
func (s *sweep) contention(h Hold) {
	if h.Called != 0 && (len(s.active) > 0 || s.lastEnd > h.Called) {
		s.report.Contended++
	}
	if h.Kind == Exclusive {
		if s.hadExcluded && s.lastHolder != h.Who {
			s.report.Handovers++
		}
		s.lastHolder, s.hadExcluded = h.Who, true
	}
}

func (s *sweep) exclusion(h Hold) {
	for _, kind := range []Kind{Exclusive, Shared, Permits} {
		if s.count[kind] == 0 || !conflict(kind, h.Kind) {
			continue
		}
		other := s.oldest(kind)
		s.report.add(Violation{Overlap, s.path,
			fmt.Sprintf("%v, while held: %v; together for %s", h, other, overlap(other, h)),
			[]Hold{other, h}})
	}
}

// oldest is searched for only to show a violation.
func (s *sweep) oldest(kind Kind) Hold {
	first := -1
	for i := range s.active {
		if s.holds[i].Kind == kind && (first < 0 || i < first) {
			first = i
		}
	}
	return s.holds[first]
}

func (s *sweep) tokens(h Hold) {
	if h.Token == 0 {
		return
	}
	for _, kind := range []Kind{Exclusive, Shared, Permits} {
		if !conflict(kind, h.Kind) {
			continue
		}
		past := s.past[kind]
		suspects := past.equal[h.Token]
		if s.rules.Handoff && kind == Exclusive && h.Kind == Shared &&
			slices.ContainsFunc(suspects, func(e Hold) bool { return e.Who == h.Who }) {
			suspects = nil // downgraded by the last holder of a series
		}
		if past.max.Token > h.Token {
			suspects = []Hold{past.max}
		}
		for _, earlier := range suspects {
			if s.rules.badToken(earlier, h) {
				s.report.add(Violation{Token, s.path,
					fmt.Sprintf("%v, after %v", h, earlier), []Hold{earlier, h}})
				break
			}
		}
	}
}

// limit checks the permits that are held after the beginning of h, the last hold to begin.
func (s *sweep) limit(h Hold) {
	limit, known := s.rules.limitFor(h)
	if !known {
		s.report.add(Violation{NoLimit, s.path, fmt.Sprintf("%v, and no limit is given", h), []Hold{h}})
		return
	}
	if s.permits <= limit {
		return
	}
	// A larger limit that has bound another of the holders counts, too, but not for the holds ahead
	// of h.
	var holders []Hold
	met, ahead := limit, h.permits()
	for _, i := range slices.Sorted(maps.Keys(s.active)) {
		if other := s.holds[i]; other.Kind == Permits {
			holders = append(holders, other)
			theirs, _ := s.rules.limitFor(other)
			met = max(met, theirs)
			if h.behind(other) {
				ahead += other.permits()
			}
		}
	}
	if ahead > limit {
		s.report.add(Violation{TooMany, s.path, fmt.Sprintf("%v makes %d of %d with those ahead of it", h, ahead, limit), holders})
		return
	}
	if s.permits <= met {
		return
	}
	s.report.add(Violation{TooMany, s.path,
		fmt.Sprintf("%v makes %d of %d", h, s.permits, met), holders})
}
