// Package bench compares the locks with their peers: zk.Lock of go-zookeeper, and Apache Curator
// and kazoo if they are installed.
//
// One test runs all of them, against one server that waits for the disk at each commit. Within each
// workload the peers run one after another, round after round, so that a slow phase of the machine
// affects all of them. Each peer has its own process (driver), which lives as long as the test, so
// that a JVM is warm. A driver receives a job, opens the job's sessions, sends "ready", works when
// it receives "go", sends its measurements, and closes its sessions when it receives "end". Between
// "go" and the measurements the server's counters are read: requests and notifications per cycle.
//
// Without -rounds, which make bench sets, only a short check of the harness runs. BENCH_CHILD marks a
// copy of this program as a driver.
//
// Two benchmarks have figures that no driver can measure: BenchmarkFootprint and BenchmarkStart.
package bench

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

func TestMain(m *testing.M) {
	var library string
	if realzk.Ordered(childEnv, &library) {
		os.Exit(drive(library))
	}
	leaks.Main(m)
}

var (
	roundsFlag    = flag.Int("rounds", 0, "how many rounds for each row; 12 of the default length take a quarter of an hour")
	lengthFlag    = flag.Duration("length", 750*time.Millisecond, "how long each round is measured; in longer rounds the first use of a lock weighs less")
	onlyFlag      = flag.String("only", "", "a `pattern` of workloads")
	diskFlag      = flag.Duration("disk", 0, "how much longer the server's disk takes for each flush, as 1ms")
	againstFlag   = flag.String("against", "", "a `commit`: measure the same locks as of then, in the same rounds, in place of the peers")
	shortcutsFlag = flag.Bool("shortcuts", false, "measure the same locks without each of their shortcuts, in the same rounds, in place of the peers")
)

// settings are the parameters of a run.
type settings struct {
	rounds int           // 0: no measurement is requested
	warm   time.Duration // in each round, before the measured time
	length time.Duration // the measured time of each peer and workload in each round
	only   *regexp.Regexp
	disk   time.Duration // additional time of each flush of the server's disk
}

func fromFlags(t *testing.T) settings {
	t.Helper()
	only, err := regexp.Compile(*onlyFlag)
	if err != nil {
		t.Fatal(err)
	}
	return settings{rounds: *roundsFlag, warm: 250 * time.Millisecond, length: *lengthFlag, only: only, disk: *diskFlag}
}

// patient returns settings of the same length with longer rounds, for waits of seconds.
func (s settings) patient() settings {
	s.rounds = max(1, s.rounds/4)
	s.warm, s.length = 4*s.warm, 4*s.length
	return s
}

func (s settings) chosen(all []workload) []workload {
	return slices.DeleteFunc(slices.Clone(all), func(w workload) bool { return !s.only.MatchString(w.name) })
}
