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
// Environment variables request a measurement; without them only a short check of the harness runs:
//
//	BENCH=12                so many rounds of a second for each peer and workload
//	BENCH_LENGTH=12s        measure each round for that long: what a lock asks at its first use weighs less
//	BENCH_ONLY=regexp       only the workloads whose names match
//	BENCH_DISK=1ms          have the server's disk take that much longer for each flush
//	BENCH_AGAINST=commit    compare the library with what it was at a commit, not with peers
//	BENCH_SHORTCUTS=true    compare it with itself without each of its shortcuts
//	BENCH_REPORT=directory  write the tables of its benchmarks.md, its chart and all figures
//
// BENCH_CHILD marks a copy of this program as a driver.
package bench

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
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

// settings are the parameters of a run.
type settings struct {
	rounds int           // 0: no measurement is requested
	warm   time.Duration // in each round, before the measured time
	length time.Duration // the measured time of each peer and workload in each round
	only   *regexp.Regexp
	disk   time.Duration // additional time of each flush of the server's disk
}

func fromEnv(t *testing.T) settings {
	t.Helper()
	s := settings{warm: 250 * time.Millisecond, length: 750 * time.Millisecond, only: regexp.MustCompile("")}
	test.Setting(t, "BENCH", &s.rounds, strconv.Atoi)
	test.Setting(t, "BENCH_LENGTH", &s.length, time.ParseDuration)
	test.Setting(t, "BENCH_ONLY", &s.only, regexp.Compile)
	test.Setting(t, "BENCH_DISK", &s.disk, time.ParseDuration)
	return s
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
