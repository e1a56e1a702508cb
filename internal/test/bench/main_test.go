// Package bench measures the locks beside their peers: zk.Lock of go-zookeeper always, Apache
// Curator and kazoo where they are installed.
//
// All run in one test, against one server that waits for the disk at each commit, one after another
// within each workload and round after round, so that what slows the machine down for a while slows
// all of them down. Each peer has one process of its own (driver), which lives as long as the test,
// so that a JVM is warm. A driver gets a job, opens the job's sessions, sends "ready", works when
// it receives "go", sends its measurements, and closes its sessions when it receives "end". Between
// "go" and the answer the server's own counters are read: requests and notifications per cycle.
//
// Without settings only a short check of the harness runs. The environment asks for more:
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
