package crew

import (
	"context"
	"strings"
	"time"
)

// Tally counts the workers at work, by their lines "start" and "end". A word after that
// distinguishes the parts of a worker, as in "start 3".
type Tally struct {
	Most int            // the most at the same time
	Done int            // how many have ended
	Said map[string]int // how often each line was reported
	Show func()         // called after each line; may be nil

	crew    *Crew
	limit   int
	working map[string]bool
}

// Tally returns a Tally that fails the example if more than limit are at work; limit 0 is no limit.
func (c *Crew) Tally(limit int) *Tally {
	return &Tally{crew: c, limit: limit, working: map[string]bool{}, Said: map[string]int{}}
}

// Run counts for d, or until the function until, which may be nil, returns true for a line. It
// returns that line, or an error if there was none.
func (t *Tally) Run(ctx context.Context, d time.Duration, until func(Line) bool) (Line, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		l, err := t.crew.Next(ctx)
		if err != nil {
			return l, err
		}
		t.count(l)
		if t.Show != nil {
			t.Show()
		}
		if until != nil && until(l) {
			return l, nil
		}
	}
}

// Full reports whether limit are at work now that the last of them has begun.
func (t *Tally) Full(l Line) bool {
	return strings.HasPrefix(l.Text, "start") && len(t.working) == t.limit
}

func (t *Tally) count(l Line) {
	t.Said[l.Text]++
	verb, part, _ := strings.Cut(l.Text, " ")
	switch key := l.From + " " + part; verb {
	case "start":
		t.working[key] = true
	case "end":
		delete(t.working, key)
		t.Done++
	}
	if t.Most = max(t.Most, len(t.working)); t.limit > 0 && t.Most > t.limit {
		t.crew.Fail("%d were at work at once, the limit is %d", t.Most, t.limit)
	}
}

// Gone records that a worker is dead.
func (t *Tally) Gone(name string) {
	for key := range t.working {
		if strings.HasPrefix(key, name+" ") {
			delete(t.working, key)
		}
	}
}

// Now returns how many are at work.
func (t *Tally) Now() int { return len(t.working) }
