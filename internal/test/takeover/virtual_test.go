package takeover

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
)

// The same faults in memory, in virtual time: at many more instants, and with no allowance for a
// busy machine. Each holder learns of its loss at its deadline to the nanosecond, unless it learns
// of the end earlier, and before the next one's call returns.

var virtualTimeouts = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}

// aBubble has room for one: a bubble takes all the processor time that it gets, and with many of
// them a goroutine of a test in real time, beside them in this process, waits longer than its
// connection may.
var aBubble = make(chan struct{}, 1)

// inVirtualTime runs a test n times, each in a bubble, with random choices and a latency of its
// own.
func inVirtualTime(t *testing.T, n int, f func(t *testing.T, v venue.Venue, n int, random *rand.Rand, to *tally)) (results *tally) {
	t.Helper()
	random := seeded(t)
	results = new(tally)
	t.Run("rounds", func(t *testing.T) {
		for i := range n {
			random := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				aBubble <- struct{}{}
				defer func() { <-aBubble }()
				venue.InMemory(t, func(t *testing.T, v venue.Venue) {
					v.Latency(time.Microsecond + upTo(random, 2*time.Millisecond))
					f(t, v, i, random, results)
				})
			})
		}
	})
	results.print(t)
	return results
}

func TestCutOffInVirtualTime(t *testing.T) {
	t.Parallel()
	const each = 20 // of one seat
	ticks := []time.Duration{100, 250, 500}
	inVirtualTime(t, setting(t, "VIRTUAL", 12, 960), func(t *testing.T, v venue.Venue, n int, random *rand.Rand, to *tally) {
		tick, timeout := ticks[n%len(ticks)]*time.Millisecond, virtualTimeouts[n/len(ticks)%len(virtualTimeouts)]
		g := ground{venue: v, tick: tick}
		if random.IntN(2) == 0 {
			g.addrs = []string{v.Standalone(t, venue.Options{Tick: tick, Phase: upTo(random, tick)}).Addr()}
		} else {
			g.addrs = v.Cluster(t, 3, venue.Options{Tick: tick, Phase: upTo(random, tick)}).Addrs()
		}
		p := v.Proxy(t, g.addrs[random.IntN(len(g.addrs))])
		s := newSeat(t, v, recipes[random.IntN(len(recipes))], timeout, v.Connect(t, timeout, p.Addr()), v.Connect(t, lasting, g.addrs...))
		for i := range each {
			s.cutOff(p, faults[(n+i)%len(faults)], g, random, to)
		}
		s.empty()
	})
}

func TestMemberCutOffInVirtualTime(t *testing.T) {
	t.Parallel()
	ticks := []time.Duration{100, 250, 500}
	inVirtualTime(t, setting(t, "VIRTUAL", 12, 960), func(t *testing.T, v venue.Venue, n int, random *rand.Rand, to *tally) {
		tick := ticks[random.IntN(len(ticks))] * time.Millisecond
		e := v.Cluster(t, 3, venue.Options{Tick: tick, Phase: upTo(random, tick), Partitions: true})
		// The last three of them are the three that there are.
		troubles[len(troubles)-1-n%3].strike(t, v, e, random, 1, virtualTimeouts, to)
	})
}

func TestLeaderDeposedInVirtualTime(t *testing.T) {
	t.Parallel()
	const stillHeld = "still held when the old leader was back"
	results := inVirtualTime(t, setting(t, "VIRTUAL", 12, 960), func(t *testing.T, v venue.Venue, n int, random *rand.Rand, to *tally) {
		to.eventTimes(stillHeld, depose(t, v, v.Cluster(t, 3, deposing), upTo(random, deposing.Tick), to))
	})
	if results.events[stillHeld] == 0 {
		t.Error("none " + stillHeld + ", and these are what this is about")
	}
}

func TestServerFrozenInVirtualTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, setting(t, "VIRTUAL", 12, 960), func(t *testing.T, v venue.Venue, n int, random *rand.Rand, to *tally) {
		serverFrozen(t, v, random, n, 1, virtualTimeouts, to)
	})
}
