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
// Without settings only a short check of the harness runs. Environment variables request more:
//
//	BENCH=short             3 rounds of 3 s for each peer and workload
//	BENCH=long              5 rounds of 10 s
//	BENCH_ROUNDS, BENCH_FOR other numbers than these
//	BENCH_ONLY=regexp       only the workloads whose names match
//	BENCH_DISK=1ms          have the server's disk take that much longer for each flush
//	BENCH_REPORT=directory  write benchmarks.md, its charts and all figures there
//
// BENCH_CHILD marks a copy of this program as a driver.
package bench

import (
	"os"
	"testing"

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
