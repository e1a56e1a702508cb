// Package takeover breaks what a hold depends on, and measures two things on one clock: that the
// holder learns of the loss before the next one is granted, and how long the next one has to wait.
//
// The margin is the time at which the next holder's acquiring call had returned, less the time at
// which a goroutine that waits on the first one's Lost woke up. So a machine that is slow to wake
// it makes the margin smaller, never larger. That delay is measured, too, and so is the deadline
// itself: that it comes before the grant, and that the first one's Held is false by then, is
// asserted on any machine.
//
// A few faults of each kind are part of `go test ./...`. With TAKEOVER=1 in the environment it is a
// campaign (go run ./internal/test/suite takeover), whose size these change:
//
//	TAKEOVER_LOSSES=864    holders cut off one by one, each at an instant of its own
//	TAKEOVER_PAUSES=9      pauses of a server
//	TAKEOVER_STOPS=30      pauses of a process that holds locks
//	TAKEOVER_MEMBERS=18    faults of one member of an ensemble with holders behind it
//	TAKEOVER_KILLS=12      deaths of a process that holds locks
//	TAKEOVER_ROUNDS=2      of failovers with a long queue, for each session timeout
//	TAKEOVER_DEPOSED=4     leaders that come back and do not know that they are deposed
//	TAKEOVER_SEED=1        seed of the random choices (printed by each run)
//
// TAKEOVER_CHILD contains the orders for a copy of the test binary.
package takeover

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
)

func TestMain(m *testing.M) {
	var o order
	if realzk.Ordered(childEnv, &o) {
		os.Exit(child(o))
	}
	flag.Parse()
	// Holders mostly wait, each in a subtest of its own.
	_ = flag.Set("test.parallel", "64")
	leaks.Main(m)
}

// campaign reports whether this is more than a part of `go test ./...`.
func campaign() bool { return os.Getenv("TAKEOVER") != "" }

// setting is a number from the environment.
func setting(t *testing.T, name string, short, long int) int {
	t.Helper()
	n := short
	if campaign() {
		n = long
	}
	test.Setting(t, "TAKEOVER_"+name, &n, strconv.Atoi)
	return n
}

// seeded returns the source of a test's random choices.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	any := int(rand.Uint32())
	seed := setting(t, "SEED", any, any)
	t.Logf("TAKEOVER_SEED=%d", seed)
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

// beside runs the short tests in parallel. A campaign's measurements have the machine to
// themselves.
func beside(t *testing.T) {
	t.Helper()
	if !campaign() {
		t.Parallel()
	}
}

// slack is how much later than it should a server may end a session. No test watches the timers of
// a server, and in a short run it shares the machine with other tests.
func slack() time.Duration {
	if campaign() {
		return 0
	}
	return 5 * time.Second
}

// server is one server: in a short run the package's shared one.
func server(t *testing.T, tick time.Duration) *realzk.Server {
	t.Helper()
	if !campaign() && os.Getenv("ZK_SERVERS") == "" {
		return realzk.Shared(t)
	}
	return realzk.Standalone(t, realzk.Options{Tick: tick})
}

// What needs an ensemble; a short run starts only one, and another when the servers of the other
// tests have gone.
func TestEnsemble(t *testing.T) {
	beside(t)
	var short venue.Ensemble
	if !campaign() {
		short = venue.Real().Cluster(t, 3, stale)
	}
	t.Run("member cut off", func(t *testing.T) { memberCutOff(t, short) })
	t.Run("leader deposed", func(t *testing.T) {
		beside(t)
		leaderDeposed(t)
	})
	t.Run("stale and failing", func(t *testing.T) {
		beside(t)
		t.Run("verify behind a stale follower", func(t *testing.T) { verifyBehindStaleFollower(t, short) })
		t.Run("failover", func(t *testing.T) { failingOver(t, short) })
	})
}
