package takeover

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// trouble is a fault of one member of an ensemble with holders behind it. The next waiters are
// behind the others.
type trouble struct {
	name   string
	leader bool // to the leader, not a follower
	begin  func(venue.Ensemble, venue.Server) error
	end    func(venue.Ensemble, venue.Server) error
}

var (
	isolated = trouble{name: "follower cut off from the leader", begin: isolate, end: heal}
	troubles = []trouble{
		isolated, isolated, isolated, isolated,
		{name: "follower frozen", begin: freeze, end: thaw},
		{name: "leader cut off from the others", leader: true, begin: isolate, end: heal},
	}
)

func isolate(e venue.Ensemble, s venue.Server) error { return e.Isolate(s) }
func heal(e venue.Ensemble, _ venue.Server) error    { e.Heal(); return nil }
func freeze(_ venue.Ensemble, s venue.Server) error  { return s.Pause() }
func thaw(_ venue.Ensemble, s venue.Server) error    { return s.Resume() }

// A server that is cut off from the leader goes on answering pings and reads for a while. The
// holders behind it must learn of their loss before the leader ends their sessions.
func memberCutOff(t *testing.T, short venue.Ensemble) {
	random := seeded(t)
	watchTimers(t)
	events, each := setting(t, "MEMBERS", 1, 18), 1
	ticks, timeouts := []time.Duration{100 * time.Millisecond}, []time.Duration{time.Second, 2 * time.Second}
	if campaign() {
		// A second is two ticks of half a second: the shortest session that there is.
		each = 2
		ticks, timeouts = []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond}, append(timeouts, 4*time.Second)
	}
	var results tally
	v := venue.Real()
	for i, tick := range ticks {
		t.Run(tick.String(), func(t *testing.T) { // servers go with it
			e := short
			if e == nil {
				e = v.Cluster(t, 3, venue.Options{Tick: tick, Partitions: true})
			}
			for n := i; n < events; n += len(ticks) {
				x := troubles[n/len(ticks)%len(troubles)]
				t.Run(x.name, func(t *testing.T) { x.strike(t, v, e, random, each, timeouts, &results) })
			}
		})
	}
	results.print(t)
}

func (x trouble) strike(t *testing.T, v venue.Venue, e venue.Ensemble, random *rand.Rand, each int, timeouts []time.Duration, to *tally) {
	victim := member(t, e, random, x.leader)
	others := slices.DeleteFunc(e.Addrs(), func(addr string) bool { return addr == victim.Addr() })
	g := sitTogether(t, v, random, victim.Addr(), others, each, timeouts)
	linger(upTo(random, time.Second))
	if err := x.begin(e, victim); err != nil {
		t.Fatal(err)
	}
	fault := now(v) // it is in force from here on, at the latest
	g.lost(x.name, fault, to)
	if err := x.end(e, victim); err != nil {
		t.Fatal(err)
	}
	whole(t, e)
	for _, a := range g.sittings {
		a.back()
	}
	g.end()
}

// member picks a server: the leader, or any follower.
func member(t *testing.T, e venue.Ensemble, random *rand.Rand, leader bool) venue.Server {
	t.Helper()
	if leader {
		s, err := e.Leader()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	followers, err := e.Followers()
	if err != nil {
		t.Fatal(err)
	}
	return followers[random.IntN(len(followers))]
}

// whole waits until all three members work together again.
func whole(t *testing.T, e venue.Ensemble) {
	t.Helper()
	test.Eventually(t, patience, "a leader and two followers", func() bool {
		followers, err := e.Followers()
		return err == nil && len(followers) == 2
	})
}
