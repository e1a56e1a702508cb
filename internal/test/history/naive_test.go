package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive finds the same as Check, by the words of the rules, pair by pair. It returns one line for
// each hold and each kind of hold that it conflicts with.
func naive(rules Rules, all []Hold) []string {
	var found []string
	holds := slices.DeleteFunc(slices.Clone(all), func(h Hold) bool { return h.until() <= h.Acquired })
	slices.SortStableFunc(holds, byAcquired)
	for i, h := range holds {
		for _, kind := range []Kind{Exclusive, Shared, Permits} {
			overlaps, disorder := false, false
			downgraded := rules.Handoff && kind == Exclusive && h.Kind == Shared && slices.ContainsFunc(holds, func(own Hold) bool {
				return own.Kind == Exclusive && own.Path == h.Path && own.Who == h.Who && own.Token == h.Token && own.until() <= h.Acquired
			})
			for j, other := range holds {
				if i == j || other.Path != h.Path || other.Kind != kind || !conflict(other.Kind, h.Kind) {
					continue
				}
				if j < i && other.until() > h.Acquired {
					overlaps = true
				}
				if other.until() <= h.Acquired && rules.badToken(other, h) && (!downgraded || other.Token > h.Token) {
					disorder = true
				}
			}
			if overlaps {
				found = append(found, finding(Overlap, h))
			}
			if disorder {
				found = append(found, finding(Token, h))
			}
		}
		if h.Kind == Permits {
			total, limit, ahead := 0, 0, h.permits()
			for j, other := range holds {
				if other.Path == h.Path && other.Kind == Permits && j <= i && other.until() > h.Acquired {
					total += other.permits()
					if other.Token != 0 && other.Token < h.Token {
						ahead += other.permits()
					}
					met, _ := rules.limitFor(other)
					limit = max(limit, met)
				}
			}
			if own, known := rules.limitFor(h); !known {
				found = append(found, finding(NoLimit, h))
			} else if total > limit || ahead > own {
				found = append(found, finding(TooMany, h))
			}
		}
	}
	return found
}

func finding(rule Rule, h Hold) string { return fmt.Sprint(rule, h) }

func TestSweepAgreesWithTheNaiveChecker(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	good, bad := 0, 0
	for range 20_000 {
		rules := Rules{
			Limits:  []Limit{{Permits: 2 + r.IntN(3), Until: r.Int64N(30)}, {Permits: 1 + r.IntN(4), Since: 0}},
			Handoff: r.IntN(4) == 0,
		}
		holds := random(r)
		want := naive(rules, holds)
		report := Check(rules, holds)
		if len(want) == 0 {
			good++
		} else {
			bad++
		}
		var got []string
		for _, v := range report.Violations {
			last := v.Holds[len(v.Holds)-1]
			got = append(got, finding(v.Rule, last))
		}
		slices.Sort(got)
		slices.Sort(want)
		if report.Total != len(want) || len(want) <= maxViolations && !slices.Equal(got, want) {
			t.Fatalf("seed %d: sweep found\n%v\nnaive found\n%v", seed, report, want)
		}
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("%d good and %d bad histories: the comparison shows little", good, bad)
	}
}

// random returns a short history, which is about as often right as wrong. Most holds come one after
// the other, with growing tokens, and some holds are anywhere.
func random(r *rand.Rand) []Hold {
	kinds := []Kind{Exclusive, Shared, Permits}[:1+r.IntN(3)]
	if r.IntN(3) == 0 {
		kinds = []Kind{Permits}
	}
	wild := r.IntN(4)
	var holds []Hold
	now := int64(1)
	for i := range 1 + r.IntN(12) {
		h := Hold{
			Path:     []string{"/a", "/b"}[r.IntN(2)],
			Kind:     kinds[r.IntN(len(kinds))],
			Permits:  r.IntN(3),
			Who:      string(rune('a' + r.IntN(3))),
			Token:    int64(i + 1),
			Acquired: now,
		}
		h.Ended = now + r.Int64N(4)
		if h.Ended == h.Acquired && r.IntN(2) == 0 {
			h.Ended++
		}
		h.Called = h.Acquired - r.Int64N(4)
		now = max(h.Ended, now) + r.Int64N(2)
		if r.IntN(4) < wild {
			h.Acquired += r.Int64N(5)
			h.Ended = h.Acquired + r.Int64N(8)
			h.Token = r.Int64N(8)
			now -= r.Int64N(3)
		}
		if r.IntN(40) == 0 {
			h.Ended = 0
		}
		holds = append(holds, h)
	}
	return holds
}

func BenchmarkCheck(b *testing.B) {
	var holds []Hold
	for i := range int64(100_000) {
		holds = append(holds, write("a", i+1, 10*i+1, 10*i+9))
	}
	for b.Loop() {
		if Check(Rules{}, holds).Err() != nil {
			b.Fatal("bad")
		}
	}
}
