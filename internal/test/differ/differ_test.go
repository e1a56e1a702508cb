package differ

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// usualCount is the number of sequences without DIFFER=n, which take some seconds.
const usualCount = 150

// classes are the classes of sequences, by the names of modeOf. One in oneIn sequences is of a
// class in which time passes: it takes a second, and so does each attempt to shrink it.
var classes = map[string]struct {
	generate func(seed, number int64) Sequence
	oneIn    int64
	tries    int
}{
	"calm":  {Generate, 1, 300},
	"lapse": {GenerateLapse, 50, 40},
	"sweep": {GenerateSweep, 100, 60},
}

// TestDiffer plays the corpus and then random sequences on the installed Java server and on the
// in-memory server that imitates its version. DIFFER=10000 plays more sequences, new ones each
// time. A failure prints the seed n, and DIFFER_SEED=n repeats its sequences.
func TestDiffer(t *testing.T) {
	corpus := readCorpus(t)
	count := number(t, "DIFFER", usualCount)
	for name, class := range classes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real := java(t, "", modes[name])
			p := pair{real, memory(t, real.Version, modes[name])}
			p.replay(t, name, corpus)
			search(t, p, class.generate, count/class.oneIn, class.tries)
			if name == "calm" && count >= usualCount && !t.Failed() {
				covers(t, real.Count.Answers)
			}
		})
	}
}

// TestVersions plays the same on two Java servers: the installed one and the server under
// DIFFER_OTHER. Changes must have all differences.
func TestVersions(t *testing.T) {
	other := os.Getenv("DIFFER_OTHER")
	if other == "" {
		t.Skip("DIFFER_OTHER names no second ZooKeeper to compare the installed one with")
	}
	search(t, pair{java(t, "", calm), java(t, other, calm)}, Generate, number(t, "DIFFER", usualCount), 300)
}

// mostKinds is the number of kinds of differences after which a search stops.
const mostKinds = 12

// search plays sequences and shrinks those that differ, one for each kind of difference, with a
// limited number of tries.
func search(t *testing.T, p pair, generate func(seed, number int64) Sequence, count int64, tries int) {
	t.Helper()
	// The seed is fixed, so that a test does not fail at random for an old difference.
	seed := int64(1)
	if os.Getenv("DIFFER") != "" {
		seed = time.Now().UnixNano() % 1_000_000
	}
	seed = number(t, "DIFFER_SEED", seed)
	began := time.Now()
	kinds, excuses := map[string]int{}, map[string]int{}
	played := 0
	for i := range count {
		d, excused := p.compare(t, generate(seed, i))
		played++
		slices.Sort(excused)
		for _, name := range slices.Compact(excused) {
			excuses[name]++
		}
		if d == nil {
			continue
		}
		if kinds[d.Kind()]++; kinds[d.Kind()] > 1 {
			continue
		}
		t.Logf("DIFFER_SEED=%d, sequence %d (%s): now it is shrunk", seed, i, d.Kind())
		t.Errorf("DIFFER_SEED=%d, sequence %d (%s):\n%s", seed, i, d.Kind(), p.shrink(t, d, tries))
		if len(kinds) >= mostKinds {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%d x %s", kinds[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(excuses)) {
		t.Logf("%d sequences differ by version: %s", excuses[name], name)
	}
	t.Logf("%s: seed %d, %d sequences, %d requests, %d events, %v", strings.Join([]string{p[0].Name, p[1].Name}, " and "),
		seed, played, p[0].Count.Requests, p[0].Count.Events, time.Since(began).Round(100*time.Millisecond))
}

// expected is what a few hundred sequences must cover, or the generator has lost something: the
// requests and the codes of their answers. After "multi:" are the operations of multis.
const expected = `
create 0 -101 -102 -108 -110 -114 -8
create2 0 -101 -108 -110 -114 -8
createContainer 0 -101 -108 -110
createTTL 0 -101 -110 -8
delete 0 -101 -102 -103 -111 -8
exists 0 -101
getData 0 -101 -102
setData 0 -101 -102 -103 -8
getACL 0 -101 -102
setACL 0 -101 -102 -103 -114
getChildren 0 -101
getChildren2 0 -101 -102
sync 0
multi 0 -5
multiRead 0
multi:create 0 -101 -108 -110 -114 -2
multi:create2 0 -101 -110 -2
multi:createContainer 0 -101 -110 -2
multi:createTTL 0 -101 -8 -2
multi:delete 0 -101 -103 -111 -2
multi:setData 0 -101 -103 -2
multi:check 0 -101 -103 -2
multi:getData 0 -101
multi:getChildren 0 -101
removeWatches 0 -121
checkWatches 0 -121
setWatches 0
setWatches2 0
getEphemerals 0
childCount 0 -101
addWatch 0
auth 0 -115
whoAmI 0
sasl 0
reconfig -123
close 0
unknown -6`

func covers(t *testing.T, answers map[string]int) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(expected), "\n") {
		verb, codes, _ := strings.Cut(line, " ")
		for _, code := range strings.Fields(codes) {
			if answers[verb+" "+code] == 0 {
				t.Errorf("no %s was answered with %s", verb, code)
			}
		}
	}
	if t.Failed() {
		t.Logf("answered: %v", answers)
	}
}
