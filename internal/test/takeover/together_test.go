package takeover

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// together are the holders behind one server, which one fault strikes together. They have
// connections of their own and began at different instants, so the fault meets each at another
// point between its heartbeats.
type together struct {
	*testing.T
	random   *rand.Rand
	sittings []*sitting
}

// sitTogether has so many sit for each recipe and timeout, behind server; the next ones are at
// others.
func sitTogether(t *testing.T, v venue.Venue, random *rand.Rand, server string, others []string, each int, timeouts []time.Duration) *together {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	var next []*wire.Conn
	for range 4 {
		next = append(next, v.Connect(t, lasting, others...))
	}
	var seats []*seat
	for range each {
		for _, r := range recipes {
			for _, timeout := range timeouts {
				seats = append(seats, newSeat(t, v, r, timeout, v.Connect(t, timeout, server), next[len(seats)%len(next)]))
			}
		}
	}
	g := &together{T: t, random: random}
	random.Shuffle(len(seats), func(i, j int) { seats[i], seats[j] = seats[j], seats[i] })
	for _, s := range seats {
		g.sittings = append(g.sittings, s.sit(ctx))
		linger(upTo(random, 40*time.Millisecond))
	}
	return g
}

// lost records the losses of all; the fault lasts until the last one.
func (g *together) lost(what string, fault int64, to *tally) {
	g.Helper()
	to.event(what)
	for _, a := range g.sittings {
		a.lost(what, fault, to)
	}
}

// end releases the lost holds, once the fault is over.
func (g *together) end() {
	g.Helper()
	for _, a := range g.sittings {
		a.done()
		a.empty()
	}
}

// A single server that is frozen grants no lock. Each holder must know of its loss by its deadline,
// so that whatever the server does when it runs again, the lock is either held by the same holder
// or known to be lost.
func TestServerFrozen(t *testing.T) {
	beside(t)
	random := seeded(t)
	watchTimers(t)
	pauses, each, timeouts := setting(t, "PAUSES", 1, 9), 1, []time.Duration{time.Second, 2 * time.Second}
	if campaign() {
		each, timeouts = 2, append(timeouts, 4*time.Second)
	}
	var results tally
	for n := range pauses {
		t.Run("pause", func(t *testing.T) { serverFrozen(t, venue.Real(), random, n, each, timeouts, &results) })
	}
	results.print(t)
}

func serverFrozen(t *testing.T, v venue.Venue, random *rand.Rand, n, each int, timeouts []time.Duration, to *tally) {
	tick := []time.Duration{100, 250, 500}[n%3] * time.Millisecond
	server := v.Standalone(t, venue.Options{Tick: tick})
	g := sitTogether(t, v, random, server.Addr(), []string{server.Addr()}, each, timeouts)
	linger(upTo(random, time.Second))
	fault := now(v)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	to.event("server frozen")
	var held []*sitting // on a busy machine some were lost before
	for _, a := range g.sittings {
		if a.hold.Held() {
			held = append(held, a)
		} else if v.Virtual() {
			t.Errorf("%s: lost before the fault", a.path)
		}
	}
	// Between half the shortest deadline and well above the longest.
	length := timeouts[0]/4 + upTo(random, timeouts[len(timeouts)-1]*5/4)
	linger(length)
	for _, a := range held {
		if closed(a.next.Done) {
			t.Errorf("%s: granted by a server that is frozen", a.path)
		}
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, a := range g.sittings {
		a.back()
		a.own = true // or not: the server decides when it wakes up
		if !a.survived() {
			a.lost("server frozen", fault, to)
		} else {
			to.survives("server frozen", a.timeout)
			if length > a.timeout {
				t.Errorf("%s: held after %v of silence, more than %v", a.path, length, a.timeout)
			}
		}
		a.empty()
	}
}
