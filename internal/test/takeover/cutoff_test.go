package takeover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// fault is something that happens to one client's connection.
type fault struct {
	name string
	// strike injects the fault, and returns when it is in force.
	strike func(p *proxy.Proxy, a *sitting, random *rand.Rand)
	// spares: the client may reconnect in time.
	spares bool
	// returns: the session lives on, for a while at least, and the client comes back too late.
	returns bool
	// silences: from then on the server receives nothing, so the session expires soon.
	silences bool
}

var faults = []fault{
	{name: "black hole", silences: true, strike: func(p *proxy.Proxy, _ *sitting, _ *rand.Rand) { p.Mute() }},
	{name: "black hole at a heartbeat", silences: true, strike: muteAt(proxy.CheckOp, proxy.HoldRequest)},
	{name: "black hole at a heartbeat's answer", silences: true, strike: muteAt(proxy.CheckOp, proxy.HoldReply)},
	{name: "black hole at a ping's answer", silences: true, strike: muteAt(proxy.PingOp, proxy.HoldReply)},
	{name: "connection refused", silences: true, strike: func(p *proxy.Proxy, _ *sitting, _ *rand.Rand) { p.Refuse() }},
	// What the client releases until then still arrives, so the next holder may be granted by that
	// release.
	{name: "answers lost, later all", returns: true, strike: func(p *proxy.Proxy, a *sitting, random *rand.Rand) {
		p.MuteReplies()
		linger(upTo(random, a.timeout))
		p.Mute()
	}},
	// The session lives on, because the client's reconnects keep it alive; so the next holder is
	// granted by the client's own delete, when it has reconnected.
	{name: "answers lost, then back", returns: true, strike: func(p *proxy.Proxy, a *sitting, random *rand.Rand) {
		p.MuteReplies()
		test.Within(a, patience, "the loss is told", func() { <-a.hold.Lost() })
		linger(upTo(random, a.timeout))
		p.Unmute()
	}},
	{name: "connection hangs", spares: true, strike: func(p *proxy.Proxy, a *sitting, random *rand.Rand) {
		op := []proxy.Op{proxy.CheckOp, proxy.PingOp}[random.IntN(2)]
		a.packet(p.Next(op, proxy.HoldReply))
	}},
	{name: "black hole for a while", spares: true, strike: func(p *proxy.Proxy, a *sitting, random *rand.Rand) {
		p.Mute()
		linger(a.timeout/3 + upTo(random, a.timeout/2))
		p.Unmute()
	}},
}

// muteAt begins a black hole with one packet.
func muteAt(op proxy.Op, action proxy.Action) func(*proxy.Proxy, *sitting, *rand.Rand) {
	return func(p *proxy.Proxy, a *sitting, _ *rand.Rand) {
		a.packet(p.Next(op, action))
		p.Mute()
	}
}

// ground is an ensemble or a single server.
type ground struct {
	name  string
	venue venue.Venue
	tick  time.Duration
	addrs []string
}

// slack is how much later than it should a server may end a session there.
func (g ground) slack() time.Duration {
	if g.venue.Virtual() {
		return 10 * time.Millisecond // on the way
	}
	return slack()
}

func grounds(t *testing.T) []ground {
	t.Helper()
	one := func(tick time.Duration) ground {
		return ground{fmt.Sprintf("one server, tick %v", tick), venue.Real(), tick, []string{server(t, tick).Addr()}}
	}
	if !campaign() {
		return []ground{one(100 * time.Millisecond)}
	}
	const tick = 250 * time.Millisecond
	three := venue.Real().Cluster(t, 3, venue.Options{Tick: tick})
	return []ground{one(100 * time.Millisecond), one(500 * time.Millisecond), {fmt.Sprintf("three servers, tick %v", tick), venue.Real(), tick, three.Addrs()}}
}

// Each holder is behind a proxy of its own, and cut off at an instant of its own, which is random
// for its heartbeats and pings.
func TestCutOff(t *testing.T) {
	beside(t)
	random := seeded(t)
	watchTimers(t)
	losses, rounds, timeouts := setting(t, "LOSSES", 9, 864), 1, []time.Duration{time.Second, 2 * time.Second}
	seats := losses
	if campaign() {
		timeouts = append(timeouts, 4*time.Second)
		seats = 48
		rounds = (losses + seats - 1) / seats
	}
	on := grounds(t)
	var results tally
	t.Run("seats", func(t *testing.T) {
		for i := range seats {
			g, timeout := on[i%len(on)], timeouts[i/len(on)%len(timeouts)]
			r := recipes[i/(len(on)*len(timeouts))%len(recipes)]
			server := g.addrs[random.IntN(len(g.addrs))]
			random := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				p := g.venue.Proxy(t, server)
				s := newSeat(t, g.venue, r, timeout, g.venue.Connect(t, timeout, p.Addr()), g.venue.Connect(t, lasting, g.addrs...))
				for n := range rounds {
					s.cutOff(p, faults[(i+n)%len(faults)], g, random, &results)
				}
				s.empty()
			})
		}
	})
	results.print(t)
	for _, g := range on {
		t.Log(g.name)
	}
}

// cutOff is one round.
func (s *seat) cutOff(p *proxy.Proxy, f fault, g ground, random *rand.Rand, to *tally) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	a := s.sit(ctx)
	a.own = f.spares || f.returns
	linger(upTo(random, s.timeout*5/4))
	what, began := f.name, now(s.venue)
	f.strike(p, a, random)
	if !a.own {
		began = now(s.venue) // it is in force from here on, at the latest
	}
	if f.spares {
		s.back()
		p.Unmute()
		if a.survived() {
			to.survives(what, s.timeout)
			return
		}
		a.lost(what, began, to)
		return
	}
	a.lost(what, began, to)
	if took := time.Duration(a.next.Hold.at - began); f.silences && took > s.timeout+2*g.tick+s.stood(began)+g.slack() {
		s.Errorf("%s: the next one held %v after the fault, more than %v and two ticks of %v; this process stood for %v", what, took, s.timeout, g.tick, s.stood(began))
	}
	p.Unmute()
	s.must(p.Accept())
	s.back()
	a.done()
}
