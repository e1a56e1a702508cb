package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxViolations is how many violations a report keeps: a broken lock breaks every rule, and the
// first few violations show that.
const maxViolations = 20

// Report is the result of Check.
type Report struct {
	Violations []Violation // the first that were found
	Total      int         // how many violations were found

	// Contended is how many holds were requested during another hold (needs Called). A lock without
	// contention is always right.
	Contended int

	all []Hold
}

func (r *Report) add(rule Rule, text string, by ...Hold) {
	r.Total++
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, Violation{rule, text, by})
	}
}

// OK reports whether no rule was broken.
func (r *Report) OK() bool { return r.Total == 0 }

// Summary returns one line, with the numbers of the report.
func (r *Report) Summary() string {
	return fmt.Sprintf("history: %d violations in %d holds, %d contended", r.Total, len(r.all), r.Contended)
}

// String returns the summary and a timeline of each violation.
func (r *Report) String() string {
	var b strings.Builder
	b.WriteString(r.Summary())
	for _, v := range r.Violations {
		last := v.Holds[len(v.Holds)-1]
		here := slices.DeleteFunc(slices.Clone(r.all), func(h Hold) bool { return h.Path != last.Path })
		fmt.Fprintf(&b, "\n\n%s: %s: %s%s", last.Path, v.Rule, v.Text, timeline(last.Acquired, here, v.Holds))
	}
	if more := r.Total - len(r.Violations); more > 0 {
		fmt.Fprintf(&b, "\n\n... and %d more", more)
	}
	return b.String()
}

const (
	linesBefore = 30
	linesAfter  = 15
)

// timeline lists, in order, when holds began and until when their holders were sure of them. Times
// are relative to the instant at. Marked holds stand behind ">". Of the other holds it shows the
// holds nearest to the instant.
func timeline(at int64, holds, marked []Hold) string {
	type line struct {
		at   int64
		text string
	}
	var lines []line
	for _, h := range holds {
		mark, asked := " ", ""
		// A marked hold may be several re-entries.
		if slices.ContainsFunc(marked, func(m Hold) bool { return m.Who == h.Who && m.Token == h.Token && m.Acquired == h.Acquired }) {
			mark = ">"
		}
		if h.Called != 0 {
			asked = fmt.Sprintf(", asked for %v", time.Duration(h.Acquired-h.Called))
		}
		lines = append(lines, line{h.Acquired, fmt.Sprintf("%s %v: acquired%s", mark, h, asked)})
		if h.Ended != 0 {
			lines = append(lines, line{h.Ended, fmt.Sprintf("%s %v: sure of it until now", mark, h)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	middle, _ := slices.BinarySearchFunc(lines, at, func(l line, at int64) int { return cmp.Compare(l.at, at) })
	var b strings.Builder
	for i, l := range lines {
		if middle-linesBefore <= i && i < middle+linesAfter || l.text[0] == '>' {
			fmt.Fprintf(&b, "\n\t%12.6fs %s", time.Duration(l.at-at).Seconds(), l.text)
		}
	}
	return b.String()
}

// Crossings counts how often a holder of a lock was of another side than the holder before it. side
// returns the side of an owner.
func Crossings(holds []Hold, side func(who string) string) (n int) {
	holds = slices.SortedFunc(slices.Values(holds), byAcquired)
	last := make(map[string]string) // by path
	for _, h := range holds {
		if of := last[h.Path]; of != "" && of != side(h.Who) {
			n++
		}
		last[h.Path] = side(h.Who)
	}
	return n
}
