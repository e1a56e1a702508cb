package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxViolations is how many violations a report keeps: a broken lock breaks every rule, and the
// first few violations show that.
const maxViolations = 20

// Report is the result of Check.
type Report struct {
	Violations []Violation // the first that were found
	Total      int         // how many violations were found

	// The following fields show whether the run could find anything, because a lock without
	// contention is always right.
	Holds     int
	Owners    int
	Handovers int // exclusive holds whose predecessor had another owner
	Contended int // holds that were requested during another hold (needs Called)

	all []Hold
}

func newReport(all []Hold) *Report {
	r := &Report{all: all, Holds: len(all)}
	owners := make(map[string]struct{})
	for _, h := range all {
		owners[h.Who] = struct{}{}
	}
	r.Owners = len(owners)
	return r
}

func (r *Report) add(v Violation) {
	r.Total++
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, v)
	}
}

// OK reports whether no rule was broken.
func (r *Report) OK() bool { return r.Total == 0 }

// Err returns nil if no rule was broken, and otherwise the whole report.
func (r *Report) Err() error {
	if r.OK() {
		return nil
	}
	return errors.New(r.String())
}

// Summary returns one line, with the numbers of the report.
func (r *Report) Summary() string {
	return fmt.Sprintf("history: %d violations in %d holds by %d owners: %d handovers, %d contended", r.Total, r.Holds, r.Owners, r.Handovers, r.Contended)
}

// String returns the summary and a timeline of each violation.
func (r *Report) String() string {
	var b strings.Builder
	b.WriteString(r.Summary())
	for _, v := range r.Violations {
		here := slices.DeleteFunc(slices.Clone(r.all), func(h Hold) bool { return h.Path != v.Path })
		title := fmt.Sprintf("%s: %s: %s", v.Path, v.Rule, v.Text)
		b.WriteString("\n\n" + Timeline(title, v.Holds[len(v.Holds)-1].Acquired, here, v.Holds, nil))
	}
	if more := r.Total - len(r.Violations); more > 0 {
		fmt.Fprintf(&b, "\n\n... and %d more", more)
	}
	return b.String()
}
