package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// childEnv has the order to a process that a test starts: a copy of the test's own program.
const childEnv = "SOAK_CHILD"

// order is such an order.
type order struct {
	Job       *job
	Candidate *candidacy
}

func TestMain(m *testing.M) {
	var o order
	if realzk.Ordered(childEnv, &o) {
		if err := o.obey(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}

func (o order) obey() error {
	if o.Candidate != nil {
		return o.Candidate.obey()
	}
	return o.Job.obey(realzk.Lines())
}

// patience limits steps that take seconds. Only a test that hangs reaches this limit.
const patience = time.Minute

// options are the size of a run. They are read from the environment, see fromEnv, which the flags
// of `make soak` set.
type options struct {
	Kind       string // "" in a plain go test, which runs a short cell of each kind
	For        time.Duration
	Seed       uint64
	Servers    int // 1 or 3
	Locks      int
	Faults     float64       // per second, of connections, sessions and nodes; 0: none at all
	Lull       time.Duration // mean time between two faults of servers
	Round      time.Duration // the record is checked after each round
	Processes  int
	Goroutines int           // of each process
	Patience   time.Duration // how long a call may take
	First      bool          // end with the first round in which something is wrong
	Break      string        // how the processes break the locks: the test of the test
}

func (o options) short() bool { return o.Kind == "" }

func fromEnv(t *testing.T) options {
	t.Helper()
	o := options{
		Kind: os.Getenv("SOAK_KIND"), For: 4 * time.Second, Seed: rand.Uint64() >> 32, Servers: 1, Locks: 24, Faults: 40,
		Lull: time.Second, Round: 30 * time.Second, Processes: 3, Goroutines: 8, Patience: patience,
	}
	if !o.short() {
		o.For, o.Servers, o.Locks, o.Faults, o.Processes, o.Goroutines = time.Minute, 3, 256, 20, 4, 64
	}
	test.Setting(t, "SOAK_FOR", &o.For, time.ParseDuration)
	test.Setting(t, "SOAK_SEED", &o.Seed, func(v string) (uint64, error) { return strconv.ParseUint(v, 10, 64) })
	test.Setting(t, "SOAK_SERVERS", &o.Servers, strconv.Atoi)
	test.Setting(t, "SOAK_LOCKS", &o.Locks, strconv.Atoi)
	test.Setting(t, "SOAK_FAULTS", &o.Faults, func(v string) (float64, error) { return strconv.ParseFloat(v, 64) })
	test.Setting(t, "SOAK_LULL", &o.Lull, time.ParseDuration)
	test.Setting(t, "SOAK_ROUND", &o.Round, time.ParseDuration)
	test.Setting(t, "SOAK_PROCESSES", &o.Processes, strconv.Atoi)
	test.Setting(t, "SOAK_GOROUTINES", &o.Goroutines, strconv.Atoi)
	test.Setting(t, "SOAK_PATIENCE", &o.Patience, time.ParseDuration)
	test.Setting(t, "SOAK_FIRST", &o.First, strconv.ParseBool)
	test.Setting(t, "SOAK_BREAK", &o.Break, func(v string) (string, error) { return v, nil })
	return o
}

// TestSoak runs the kind that SOAK_KIND names, or a short cell of each kind.
func TestSoak(t *testing.T) {
	found := false
	for _, k := range []struct {
		name string
		run  func(*testing.T, options)
	}{
		{"leaks", leaksNothing}, // first, because it counts what the process has
		{"hammer", hammers},
		{"lost", losesReplies},
		{"takeover", takeovers},
		{"failover", failovers},
	} {
		if o := fromEnv(t); o.short() || o.Kind == k.name {
			found = true
			t.Run(k.name, func(t *testing.T) { k.run(t, o) })
		}
	}
	if !found {
		t.Errorf("SOAK_KIND=%s: there is no such kind", os.Getenv("SOAK_KIND"))
	}
}
