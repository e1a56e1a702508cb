package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	us = int64(time.Microsecond)
	ms = int64(time.Millisecond)
)

func write(who string, token, from, to int64) Hold {
	return Hold{Path: "/l", Kind: Exclusive, Who: who, Token: token, Acquired: from, Ended: to}
}

func read(who string, token, from, to int64) Hold {
	return Hold{Path: "/l", Kind: Shared, Who: who, Token: token, Acquired: from, Ended: to}
}

func take(who string, n int, token, from, to int64) Hold {
	return Hold{Path: "/s", Kind: Permits, Permits: n, Who: who, Token: token, Acquired: from, Ended: to}
}

func elsewhere(h Hold) Hold {
	h.Path = "/other"
	return h
}

func called(at int64, h Hold) Hold {
	h.Called = at
	return h
}

var three = Rules{Limits: []Limit{{Path: "/s", Permits: 3}}}

func TestGoodHistories(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules Rules
		holds []Hold
	}{
		{"nothing", Rules{}, nil},
		{"one after the other", Rules{}, []Hold{write("a", 1, 1, 10), write("b", 2, 11, 20), write("a", 3, 21, 30)}},
		{"touching", Rules{}, []Hold{write("a", 1, 1, 10), write("b", 2, 10, 20)}},
		{"recorded in another order", Rules{}, []Hold{write("b", 2, 11, 20), write("a", 1, 1, 10)}},
		{"the last is never released", Rules{}, []Hold{write("a", 1, 1, 10), write("b", 2, 11, 0)}},
		{"different paths", Rules{}, []Hold{write("a", 2, 1, 10), elsewhere(write("b", 1, 1, 10)), elsewhere(write("b", 2, 11, 20))}},
		{"readers together", Rules{}, []Hold{read("a", 1, 1, 10), read("b", 2, 2, 11), read("c", 2, 3, 12)}},
		{"a later reader joins an older node", Rules{}, []Hold{read("a", 1, 1, 10), read("b", 2, 2, 4), read("c", 1, 5, 12)}},
		{"readers between writers", Rules{}, []Hold{write("a", 1, 1, 2), read("b", 2, 3, 5), read("c", 3, 3, 4), write("d", 4, 6, 7), read("b", 5, 8, 9)}},
		{"downgrade", Rules{}, []Hold{write("a", 1, 1, 2), read("a", 1, 3, 6), read("b", 2, 4, 7), write("c", 3, 8, 9)}},
		{"handoff", Rules{Handoff: true}, []Hold{write("a", 1, 1, 2), write("b", 1, 3, 4), write("c", 2, 5, 6)}},
		{"handed on twice and downgraded", Rules{Handoff: true}, []Hold{write("a", 1, 1, 2), write("b", 1, 3, 4), write("c", 1, 5, 6), read("c", 1, 7, 8)}},
		{"re-entry", Rules{Reentrant: true}, []Hold{write("a", 1, 1, 5), write("a", 1, 2, 3), write("a", 1, 4, 8), write("b", 2, 9, 10)}},
		{"lost as soon as it was got", Rules{}, []Hold{write("a", 1, 1, 10), write("b", 2, 5, 5)}},
		{"tokens unknown", Rules{}, []Hold{write("a", 0, 1, 2), write("b", 0, 3, 4)}},
		{"all permits", three, []Hold{take("a", 1, 1, 1, 10), take("b", 2, 2, 2, 9), take("c", 2, 3, 9, 12)}},
		{"permits told in another order", three, []Hold{take("a", 1, 2, 1, 2), take("b", 1, 1, 3, 4)}},
		{"a limit for every path", Rules{Limits: []Limit{{Permits: 1}}}, []Hold{take("a", 1, 1, 1, 2)}},
		{"grown", Rules{Limits: []Limit{{Path: "/s", Permits: 1, Until: 12}, {Path: "/s", Permits: 2, Since: 10}}},
			[]Hold{called(1, take("a", 1, 1, 2, 20)), called(3, take("b", 1, 2, 11, 20))}},
		{"shrunk under holders, and one that was granted before it knew", Rules{Limits: []Limit{{Path: "/s", Permits: 2, Until: 12}, {Path: "/s", Permits: 1, Since: 10}}},
			[]Hold{called(1, take("a", 1, 1, 2, 50)), called(9, take("b", 1, 2, 20, 50)), called(51, take("c", 1, 3, 52, 53))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if report := Check(c.rules, c.holds); !report.OK() {
				t.Error(report)
			}
		})
	}
}

func TestBadHistories(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules Rules
		holds []Hold
		want  Rule
	}{
		{"overlap by a microsecond", Rules{}, []Hold{write("a", 1, 1, 10*ms+us), write("b", 2, 10*ms, 20*ms)}, Overlap},
		{"one within the other", Rules{}, []Hold{write("a", 1, 1, 100), write("b", 2, 10, 20)}, Overlap},
		{"begun at one instant", Rules{}, []Hold{write("a", 1, 1, 2), write("b", 2, 1, 2)}, Overlap},
		{"the first was never released", Rules{}, []Hold{write("a", 1, 1, 0), write("b", 2, 10, 20)}, Overlap},
		{"neither was ever released", Rules{}, []Hold{write("a", 1, 1, 0), write("b", 2, 10, 0)}, Overlap},
		{"one owner twice", Rules{}, []Hold{write("a", 1, 1, 10), write("a", 1, 2, 3)}, Overlap},
		{"re-entry with another token", Rules{Reentrant: true}, []Hold{write("a", 1, 1, 10), write("a", 2, 2, 3)}, Overlap},
		{"another owner within a re-entry", Rules{Reentrant: true}, []Hold{write("a", 1, 1, 3), write("a", 1, 2, 10), write("b", 2, 5, 6)}, Overlap},
		{"writer over reader", Rules{}, []Hold{read("a", 1, 1, 10), write("b", 2, 9, 20)}, Overlap},
		{"reader over writer", Rules{}, []Hold{write("a", 1, 1, 10), read("b", 2, 9, 20)}, Overlap},
		{"writer over the second of two readers", Rules{}, []Hold{read("a", 1, 1, 5), read("b", 2, 2, 20), write("c", 3, 10, 30)}, Overlap},
		{"permits over a writer", three, []Hold{take("a", 1, 1, 1, 10), {Path: "/s", Kind: Exclusive, Who: "b", Token: 2, Acquired: 5, Ended: 6}}, Overlap},
		{"swapped tokens", Rules{}, []Hold{write("a", 2, 1, 10), write("b", 1, 11, 20)}, Token},
		{"the same token", Rules{}, []Hold{write("a", 1, 1, 10), write("b", 1, 11, 20)}, Token},
		{"a token from before the one before", Rules{}, []Hold{write("a", 2, 1, 2), write("b", 3, 3, 4), write("c", 2, 5, 6)}, Token},
		{"reader below an earlier writer", Rules{}, []Hold{write("a", 5, 1, 2), read("b", 4, 3, 4)}, Token},
		{"writer below an earlier reader", Rules{}, []Hold{read("a", 5, 1, 2), read("b", 3, 1, 2), write("c", 4, 3, 4)}, Token},
		{"another reader with a downgraded token", Rules{}, []Hold{write("a", 1, 1, 2), read("a", 1, 3, 6), read("b", 1, 4, 7)}, Token},
		{"writer with the token of a reader", Rules{}, []Hold{read("a", 1, 3, 4), write("a", 1, 5, 6)}, Token},
		{"handed off to an older token", Rules{Handoff: true}, []Hold{write("a", 2, 1, 2), write("b", 1, 3, 4)}, Token},
		{"handed off from writer to reader", Rules{Handoff: true}, []Hold{write("a", 1, 1, 2), read("b", 1, 3, 4)}, Token},
		{"handed on and downgraded by another", Rules{Handoff: true}, []Hold{write("a", 1, 1, 2), write("b", 1, 3, 4), read("c", 1, 5, 6)}, Token},
		{"one permit too many", three, []Hold{take("a", 1, 1, 1, 10), take("b", 1, 2, 2, 10), take("c", 1, 3, 3, 10), take("d", 1, 4, 9, 11)}, TooMany},
		{"one permit too many in a batch", three, []Hold{take("a", 2, 1, 1, 10), take("b", 2, 2, 2, 10)}, TooMany},
		{"more than there are", three, []Hold{take("a", 4, 1, 1, 10)}, TooMany},
		{"behind one that was there before it shrunk", Rules{Limits: []Limit{{Path: "/s", Permits: 2, Until: 12}, {Path: "/s", Permits: 1, Since: 10}}},
			[]Hold{called(1, take("a", 1, 1, 2, 20)), called(13, take("b", 1, 2, 14, 20))}, TooMany},
		{"asked for after it had shrunk", Rules{Limits: []Limit{{Path: "/s", Permits: 2, Until: 12}, {Path: "/s", Permits: 1, Since: 10}}},
			[]Hold{called(13, take("a", 1, 1, 14, 50)), called(14, take("b", 1, 2, 20, 50))}, TooMany},
		{"granted before it grew", Rules{Limits: []Limit{{Path: "/s", Permits: 1, Until: 12}, {Path: "/s", Permits: 2, Since: 10}}},
			[]Hold{called(1, take("a", 1, 1, 2, 50)), called(3, take("b", 1, 2, 9, 50))}, TooMany},
		{"no limit", Rules{}, []Hold{take("a", 1, 1, 1, 10)}, NoLimit},
		{"ended before it began", Rules{}, []Hold{write("a", 1, 10, 1)}, Malformed},
		{"no kind", Rules{}, []Hold{{Path: "/l", Who: "a", Acquired: 1, Ended: 2}}, Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 3 { // in whatever order the records come
				report := Check(c.rules, c.holds)
				if report.Total != 1 || report.Violations[0].Rule != c.want || report.OK() {
					t.Errorf("want one violation, %s; got\n%v", c.want, report)
				}
				rand.Shuffle(len(c.holds), func(i, j int) { c.holds[i], c.holds[j] = c.holds[j], c.holds[i] })
				if slices.ContainsFunc(c.holds, func(h Hold) bool { return h.Acquired == c.holds[0].Acquired && h != c.holds[0] }) {
					break
				}
			}
		})
	}
}
