package explore

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// plainRun is how long a plain `go test` explores, in real time; each seed runs in virtual time.
const plainRun = 5 * time.Second

// A campaign is the parameters and the results of a run.
type campaign struct {
	length time.Duration // real time; no seed begins after it, except the least
	least  int           // so many seeds are played, although that takes longer
	first  uint64        // the first seed; the others follow
	only   bool          // repeat the first seed until it fails
	jobs   int           // seeds at the same time
	stop   bool          // stop at the first failure
	step   uint64        // from seed to seed
	kind   string        // kind of all worlds; empty: any

	mu      sync.Mutex
	next    uint64
	failed  bool
	seeds   int
	virtual time.Duration
	tally   map[string]int
	faults  map[string]int
	worlds  map[string]int // by kind
	struck  map[string]int // by kind, the worlds in which the strike has happened
}

// The flags of TestExplore and TestSoak.
var (
	lengthFlag = flag.Duration("for", 0, "how long, in real `time` (default: some seconds)")
	kindFlag   = flag.String("kind", "", "sim: worlds of this `kind` alone; soak: hammer")
	seedFlag   = flag.Uint64("seed", 0, "sim: this seed alone, until it fails; soak: the seed of the random choices (default: random)")
	fromFlag   = flag.Uint64("from", 0, "sim: the first `seed` (default: random)")
	jobsFlag   = flag.Int("jobs", runtime.GOMAXPROCS(0), "sim: seeds at the same time")
	stopFlag   = flag.Bool("stop", false, "sim: stop at the first failure")
)

func fromFlags(t *testing.T) *campaign {
	c := &campaign{
		length: cmp.Or(*lengthFlag, plainRun), first: cmp.Or(*fromFlag, rand.Uint64()>>40), jobs: *jobsFlag, stop: *stopFlag,
		tally: make(map[string]int), faults: make(map[string]int), worlds: make(map[string]int), struck: make(map[string]int),
	}
	if *seedFlag != 0 {
		c.only, c.stop, c.jobs, c.first = true, true, 1, *seedFlag
	}
	c.kind, c.step = *kindFlag, 1
	if c.kind != "" && !c.only {
		c.step = uint64(len(kindsOfWorlds))
		for n := uint64(0); draw(c.first).kind.name != c.kind; c.first++ {
			if n++; n == c.step {
				t.Fatalf("-kind %s: there is no such kind of worlds", c.kind)
			}
		}
	}
	c.next, c.least = c.first, 1
	if !c.only && !c.stop && c.kind == "" {
		c.least = len(kindsOfWorlds) // one of each kind
	}
	return c
}

// TestExplore plays a world of each kind, and more seeds until its time has passed. It must find nothing.
func TestExplore(t *testing.T) {
	c := fromFlags(t)
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for job := range c.jobs {
			t.Run(fmt.Sprint(job), func(t *testing.T) {
				t.Parallel()
				for seed, ok := c.begin(began); ok; seed, ok = c.begin(began) {
					c.play(t, seed)
				}
			})
		}
	})
	took := time.Since(began)
	t.Log(c.table(took))
	// After fewer worlds a rare act may be missing by chance.
	if c.seeds >= 3*c.least && c.least > 1 && !c.failed {
		c.meaning(t)
	}
}

// begin returns the next seed, or false if the time has passed.
func (c *campaign) begin(began time.Time) (seed uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.length
	if c.seeds < c.least {
		late *= 6 // a slow machine plays fewer
	}
	if c.seeds > 0 && time.Since(began) > late || c.failed && c.stop {
		return 0, false
	}
	c.seeds++
	if c.only {
		return c.first, true
	}
	c.next += c.step
	return c.next - c.step, true
}

func (c *campaign) play(t *testing.T, seed uint64) {
	p := draw(seed)
	// A deadlock in the bubble ends the program, and tests that hang are killed: this line then
	// shows the seed.
	fmt.Fprintf(os.Stderr, "%v\n", p)
	synctest.Test(t, func(t *testing.T) {
		r := play(t, p)
		c.add(r)
		if r.report != "" {
			t.Errorf("%v\n%s\nhistory and faults: %s\nagain: make sim ARGS='-seed %d'", p, r.report, r.save(t), seed)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = c.failed || t.Failed()
}

func (c *campaign) add(r *result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.virtual += r.virtual
	c.worlds[r.plan.kind.name]++
	if r.faults[r.plan.kind.fault] > 0 {
		c.struck[r.plan.kind.name]++
	}
	for what, n := range r.tally {
		c.tally[what] += n
	}
	for what, n := range r.faults {
		c.faults[what] += n
	}
}

// save writes all holds and all actions of the nemesis, each as a line of JSON.
func (r *result) save(t *testing.T) string {
	f, err := os.CreateTemp("", fmt.Sprintf("explore-%d-*.jsonl", r.plan.seed))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer f.Close()
	out := json.NewEncoder(f)
	for _, e := range r.events {
		if err := out.Encode(map[string]any{"at": e.at, "nemesis": e.text}); err != nil {
			t.Error(err)
		}
	}
	for _, h := range r.record {
		if err := out.Encode(h); err != nil {
			t.Error(err)
		}
	}
	return f.Name()
}

// table returns what was done, and its cost.
func (c *campaign) table(took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s", counts(c.faults), counts(c.tally))
	faults := total(c.faults)
	fmt.Fprintf(&b, "\nEXPLORE | %d seeds from %d on | %v real | %.2f virtual hours, %.0f x real | %d cycles, %.0f/s | %d faults, %.0f/s",
		c.seeds, c.first, took.Round(time.Second), c.virtual.Hours(), c.virtual.Seconds()/took.Seconds(),
		c.tally["cycles"], float64(c.tally["cycles"])/took.Seconds(), faults, float64(faults)/took.Seconds())
	return b.String()
}

func counts(m map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, m[what]))
	}
	return strings.Join(parts, ", ")
}

// fewWorlds of a kind may all lack its fault, by chance.
const fewWorlds = 10

// meaning fails a run in which something that it must cover did not happen.
func (c *campaign) meaning(t *testing.T) {
	acts := []string{
		"exclusive", "shared", "permits", "canceled", "busy", "lost", "downgraded", "re-entered", "verified", "written", "written in vain", "resized",
		"crowds", "released in the background", "downgraded in the background", "too many", "proclaimed", "terms", "panics", "overdue", "named", "shown",
	}
	strikes := append(strikesOfHosts, "close", "usurped", "strewn",
		"member killed", "member paused", "member isolated", "member lags", "member stalls", "leader changed")
	for _, what := range missing(c.tally, c.faults, acts, strikes, actions) {
		t.Errorf("never %s: the run means nothing", what)
	}
	for _, k := range kindsOfWorlds {
		if n := c.worlds[k.name]; k.strike != nil && n >= fewWorlds && c.struck[k.name] == 0 {
			t.Errorf("in none of %d worlds %q there was: %s", n, k.name, k.fault)
		}
	}
}

var strikesOfHosts = []string{"cut", "partition", "nothing in", "nothing out", "freeze", "expire", "delete"}

// missing returns what should have happened and has not.
func missing(tally, faults map[string]int, acts, strikes []string, packets []proxy.Action) (never []string) {
	for _, what := range acts {
		if tally[what] == 0 {
			never = append(never, what)
		}
	}
	for _, what := range strikes {
		if faults[what] == 0 {
			never = append(never, what)
		}
	}
	for _, action := range packets {
		struck := func(what string) bool { return strings.HasPrefix(what, action.String()+": ") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(faults)), struck) {
			never = append(never, action.String())
		}
	}
	return never
}
