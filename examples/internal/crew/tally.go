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

	crew    *Crew
	limit   int
	working map[string]bool
}

// Tally returns a Tally that fails the example if more than limit are at work; limit 0 is no limit.
func (c *Crew) Tally(limit int) *Tally {
	return &Tally{crew: c, limit: limit, working: map[string]bool{}, Said: map[string]int{}}
}

// Run counts for d, and calls then after each line.
func (t *Tally) Run(ctx context.Context, d time.Duration, then func()) {
	_, _ = t.run(ctx, d, func(Line) bool { then(); return false })
}

// RunUntilFull counts until limit are at work, and returns the line of the last to begin. It
// returns an error if that takes longer than d.
func (t *Tally) RunUntilFull(ctx context.Context, d time.Duration) (Line, error) {
	return t.run(ctx, d, func(l Line) bool {
		return strings.HasPrefix(l.Text, "start") && len(t.working) == t.limit
	})
}

func (t *Tally) run(ctx context.Context, d time.Duration, until func(Line) bool) (Line, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		l, err := t.crew.Next(ctx)
		if err != nil {
			return l, err
		}
		if t.count(l); until(l) {
			return l, nil
		}
	}
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
