// Package hammer runs many processes that contend for a few locks, records which one held them
// when, and checks the record.
//
// Each test starts a number of copies of its own binary. Each copy has one connection and a number
// of goroutines that lock, try, give up at random instants, downgrade, re-enter and unlock on two
// paths. What must be true is checked twice: at run time, in memory that the processes share and
// without clocks (cells), and afterwards in the merged record (history). A run in which no caller
// had to wait counts as failed.
//
// The defaults suit `go test ./...`. The environment makes it larger:
//
//	HAMMER=20s              how long each recipe is hammered (3s)
//	HAMMER_PROCESSES=20     how many processes (4)
//	HAMMER_GOROUTINES=50    how many goroutines in each (10)
//	HAMMER_SEED=1           seed of the random choices (printed by each run)
//	ZK_SERVERS=host:port,.. an ensemble to use in place of a server of our own
//
// TestStress does the same while a nemesis breaks connections, sessions, nodes, processes and
// servers. There a hold may be lost, and counts as certain up to the last instant at which it
// reported itself held:
//
//	STRESS=10m              how long (4s, or until it means something)
//	STRESS_SERVERS=3        1: a single server, which is faster (1)
//	STRESS_FAULTS=20        how many faults a second, without those of servers (40)
//	STRESS_LULL=500ms       mean time between two faults of servers (1s)
//	STRESS_LOCKS=256        how many locks (24)
//	STRESS_ROUND=10s        after how long the record is checked (30s)
//	STRESS_PATIENCE=10s     how long a call may take (1m)
//	STRESS_FIRST=1          end with the first round in which something is wrong
//	STRESS_PROCESSES, STRESS_GOROUTINES, STRESS_SEED as above
//
// TestLostReplies has three servers that execute requests and whose replies are lost:
//
//	LOST=10000              how many creates, and how many deletes (30)
//
// HAMMER_CHILD contains the orders for a copy.
package hammer

import (
	"os"
	"testing"

	"github.com/zklocks/zklocks/internal/test/leaks"
)

func TestMain(m *testing.M) {
	if order, ok := os.LookupEnv(childEnv); ok {
		os.Exit(child(order))
	}
	leaks.Main(m)
}
