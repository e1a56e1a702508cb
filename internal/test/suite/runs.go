package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/zklocks/zklocks/internal/test/yields"
)

// A run is a go test whose size is in the environment. A variable that is set already counts as if
// its flag were given.
type run struct {
	name, what string
	test       []string // arguments of go test
	simulated  bool     // needs no ZooKeeper; goroutines of the library yield at random
	options    []option
}

type option struct {
	flag  string
	env   string // "": go test has this flag, too
	value string // if the flag is not given; "" leaves it to the test; "false": the flag takes no value
	what  string
}

var runs = []run{
	{
		name: "sim", what: "lock in virtual time, in memory, while hosts, packets, members and sessions are broken",
		test: []string{"-v", "-timeout", "0", "-run", "TestExplore$", "./internal/test/explore"}, simulated: true,
		options: []option{
			{"for", "EXPLORE", "1m", "how long, in real time"},
			{"seed", "EXPLORE_SEED", "", "this seed alone, until it fails"},
			{"from", "EXPLORE_FROM", "", "the first seed"},
			{"kind", "EXPLORE_KIND", "", "worlds of this kind alone"},
			{"race", "", "false", "with the race detector, at a third of the speed"},
		},
	},
	{
		name: "soak", what: "lock on real servers and in real processes, while all of them break; go doc ./internal/test/soak has the kinds",
		test: []string{"-v", "-timeout", "0", "-run", "TestSoak$", "./internal/test/soak", "./internal/test/explore"},
		options: []option{
			{"kind", "SOAK_KIND", "hammer", "hammer, lost, takeover, failover (which installs etcd), moves or leaks"},
			{"for", "SOAK_FOR", "1m", "how long; leaks takes ten minutes, whatever it says"},
			{"seed", "SOAK_SEED", "", "of the random choices"},
			{"servers", "SOAK_SERVERS", "", "one server, or three (default 3)"},
			{"locks", "SOAK_LOCKS", "", "hammer: how many locks (256)"},
			{"faults", "SOAK_FAULTS", "", "hammer: at most so many per second (20); 0: nothing breaks"},
			{"processes", "SOAK_PROCESSES", "", "hammer: how many (4)"},
			{"goroutines", "SOAK_GOROUTINES", "", "hammer: in each process (64)"},
			{"race", "", "false", "with the race detector"},
		},
	},
	{
		name: "differ", what: "play random sequences of requests on the server in memory and on a real one, and compare",
		test: []string{"-v", "-timeout", "120m", "-run", "TestDiffer", "./internal/test/differ"},
		options: []option{
			{"n", "DIFFER", "10000", "how many sequences"},
			{"seed", "DIFFER_SEED", "", "the seed that a failure names"},
		},
	},
	{
		name: "bench", what: "measure our locks next to zk.Lock and, where installed, Curator and kazoo",
		test: []string{"-v", "-timeout", "180m", "-run", "TestBench$", "./internal/test/bench"},
		options: []option{
			{"rounds", "BENCH", "12", "how many rounds of a second for each row; 12 take a quarter of an hour"},
			{"length", "BENCH_LENGTH", "", "how long each round is measured, as 12s: what a lock asks at its first use weighs less"},
			{"only", "BENCH_ONLY", "", "a pattern of workloads"},
			{"disk", "BENCH_DISK", "", "how much slower the server's disk is made, as 1ms"},
			{"against", "BENCH_AGAINST", "", "a commit: measure the same locks as of then, in the same rounds"},
			{"shortcuts", "BENCH_SHORTCUTS", "false", "measure the same locks without each of their shortcuts, in the same rounds"},
			{"report", "BENCH_REPORT", "", "a `directory` from the root, docs/maintainers: write the tables of the page, its chart and all figures"},
		},
	},
	{
		name: "local", what: "measure the costs within a process: re-entry, joined reads, the rule, allocations",
		test: []string{
			"-timeout", "60m", "-run", "^$", "-bench", ".", "-benchmem", "-count", "6",
			"./reentrant", "./rwlock", "./semaphore", "./internal/queue", "./internal/znode", "./internal/goid", "./internal/wire",
		},
		options: []option{{"count", "", "", "how often; benchstat wants several, default 6"}},
	},
}

// parse sets variables by the flags of a run, and returns arguments of go test.
func (r run) parse(args []string) (more []string, err error) {
	flags := flag.NewFlagSet(r.name, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "%s: %s\n", r.name, r.what)
		flags.PrintDefaults()
	}
	for _, o := range r.options {
		set := func(v string) error {
			if o.env == "" {
				more = append(more, "-"+o.flag+"="+v)
				return nil
			}
			return os.Setenv(o.env, v)
		}
		switch {
		case o.value == "false":
			flags.BoolFunc(o.flag, o.what, set)
		case o.value == "":
			flags.Func(o.flag, o.what, set)
		default:
			flags.Func(o.flag, fmt.Sprintf("%s (default %s)", o.what, o.value), set)
			if os.Getenv(o.env) == "" {
				os.Setenv(o.env, o.value)
			}
		}
	}
	err = flags.Parse(args)
	return append(more, flags.Args()...), err
}

// start installs what is missing, and runs the test.
func (r run) start(more []string) error {
	args := []string{"test", "-count=1"}
	if r.simulated {
		root, err := os.Getwd()
		if err != nil {
			return err
		}
		overlay, err := yields.Write(root, "bin/_yields", nil) // with an underscore, so that ./... does not match it
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	} else {
		os.Setenv("ZKLOCKS_REAL", "1") // a test that needs a real server fails where none is installed
		if err := command(os.Stderr, "scripts/zookeeper.sh"); err != nil {
			return err
		}
	}
	if os.Getenv("SOAK_KIND") == "failover" {
		if err := command(os.Stderr, "scripts/peers.sh", "etcd"); err != nil {
			return err
		}
	}
	return command(os.Stdout, "go", slices.Concat(args, r.test, more)...)
}

func command(out io.Writer, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd.Run()
}
