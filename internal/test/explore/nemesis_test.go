package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// A nemesis injects one fault after another, and ends each after a while. Several run at the same
// time; only one of them breaks members, so that there is a quorum most of the time.
type nemesis struct {
	*world
	random  *rand.Rand
	members bool
	strike  func(*nemesis) // its only fault; nil: any fault
	taken   []*stay        // the stays of nodes that it has deleted
}

func (n *nemesis) chance(of int) bool { return n.random.IntN(of) == 0 }

// rage runs until the workers begin no further cycle.
func (n *nemesis) rage() {
	for {
		pause := time.Duration(n.random.ExpFloat64() * float64(n.rest))
		if time.Now().Add(pause).After(n.end) {
			return
		}
		time.Sleep(pause) // virtual
		switch {
		case n.strike != nil:
			n.strike(n)
		case n.members && n.chance(3):
			n.strikeMember()
		case n.chance(12):
			n.strikeSession()
		default:
			n.strikeHost()
		}
	}
}

// while returns how long a fault lasts: most end before a session can expire, some outlast it. On
// real servers these are fewer, or hardly any lock would be granted.
func (n *nemesis) while() time.Duration {
	rarity := 5
	if n.real {
		rarity = 30
	}
	if n.chance(rarity) {
		return between(n.random, n.session/2, 2*n.session)
	}
	return between(n.random, time.Millisecond, n.session/3)
}

func (n *nemesis) host() *host { return n.hosts[n.random.IntN(len(n.hosts))] }

// Faults of packets, and the requests that they strike. -127 means that the server has dropped the
// request, -12 that it does not know the session.
var (
	actions = []proxy.Action{
		proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit, proxy.HoldRequest, proxy.HoldReply, proxy.LoseRequest, proxy.LoseReply, proxy.Answer(-127), proxy.Answer(-12),
	}
	kinds = []proxy.Op{
		proxy.AnyOp, proxy.CreateOp, proxy.DeleteOp, proxy.MoveOp, proxy.ListOp, proxy.ReadOp, proxy.CheckOp,
		proxy.WatchesOp, proxy.ConnectOp, proxy.SetOp, proxy.MkdirOp,
	}
)

// strikeHost breaks the network of a host, or one of its packets.
func (n *nemesis) strikeHost() {
	h := n.host()
	d := n.while()
	lasting := func(what string, begin func(), end func()) {
		n.say(what, "%s: %s for %v", h.name, what, d)
		begin()
		time.Sleep(d) // virtual
		end()
		n.say("", "%s: %s is over", h.name, what)
	}
	switch n.random.IntN(8) {
	case 0:
		n.say("cut", "%s: cut", h.name)
		h.net.all().Cut()
	case 1:
		lasting("partition", h.net.all().Partition, h.net.heal)
	case 2:
		lasting("nothing out", h.net.out().Partition, h.net.heal)
	case 3:
		lasting("nothing in", h.net.in().Partition, h.net.heal)
	case 4:
		lasting("freeze", h.net.all().Freeze, h.net.all().Thaw)
	default:
		action, op := actions[n.random.IntN(len(actions))], kinds[n.random.IntN(len(kinds))]
		what := fmt.Sprintf("%v: %v", action, op)
		f := h.net.packets.Nth(op, 1+n.random.IntN(3), action)
		defer f.Cancel()
		over := time.NewTimer(n.session) // virtual
		defer over.Stop()
		select {
		case <-f.Fired():
		case <-over.C: // no such request was sent
			return
		}
		n.say(what, "%s: %s", h.name, what)
		if action == proxy.HoldRequest || action == proxy.HoldReply {
			time.Sleep(d) // virtual
			n.say("", "%s: %s is over", h.name, what)
		}
	}
}

// strikeSession expires a session or deletes a node at the server, or closes a host's connection.
func (n *nemesis) strikeSession() {
	h := n.host()
	switch n.random.IntN(4) {
	case 0:
		id, _ := h.net.packets.Session()
		if _, ok := n.expire(id); ok {
			n.say("expire", "%s: session %#x expired at the server", h.name, id)
		}
	case 1:
		if left := n.left(); len(left) > 0 {
			n.remove(left[n.random.IntN(len(left))])
		}
	default:
		if !n.real && n.chance(3) {
			n.close(h)
		}
	}
}

// close closes the connection of a host, and gives it another.
func (n *nemesis) close(h *host) {
	n.say("close", "%s: its connection is closed", h.name)
	c := h.client()
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if !closed {
		_ = c.conn.Close()                                         // fails if no server answers
		time.Sleep(between(n.random, time.Millisecond, n.session)) // virtual: the host has no connection
		h.connect()
	}
}

// strikeMember breaks a member, or the network between members.
func (n *nemesis) strikeMember() {
	m := n.cluster.member(n.random)
	if m == nil {
		return
	}
	d := n.while()
	lasting := func(what string, begin, end func()) {
		n.say(what, "%v: %s for %v", m, what, d)
		begin()
		time.Sleep(d) // virtual
		end()
		n.say("", "%v: %s is over", m, what)
	}
	kinds := 2
	if n.plan.members > 1 {
		kinds = 3
	}
	simulated, ok := m.(inMemory)
	if ok && kinds > 2 {
		kinds = 6
	}
	switch n.random.IntN(kinds) {
	case 0:
		lasting("member killed", m.Kill, m.Restart)
	case 1:
		lasting("member paused", m.Pause, m.Resume)
	case 2:
		lasting("member isolated", m.Isolate, m.Heal)
	case 3:
		lasting("member lags", func() { simulated.Lag(between(n.random, time.Millisecond, n.session/2)) }, func() { simulated.Lag(0) })
	case 4:
		n.say("leader changed", "%v becomes the leader", m)
		n.ensemble.Elect(simulated.Member)
	case 5:
		flow := func() {}
		lasting("member stalls", func() { flow = simulated.Stall() }, func() { flow() })
	}
}

// A member is a server that the nemesis breaks.
type member interface {
	fmt.Stringer
	Kill()
	Restart()
	Pause()
	Resume()
	Isolate()
	Heal()
}

// A cluster is the servers, in memory or in processes.
type cluster interface {
	ends(session int64) bool  // a session; false: there is no such session, or no leader
	member(*rand.Rand) member // any, often the leader; nil: not now
	left() []standing         // the nodes in the locks' directories or, in processes, in one of them
}

type inMemory struct {
	*memzk.Member
	w *world
}

func (m inMemory) String() string { return fmt.Sprintf("member %d", m.ID()) }
func (m inMemory) Kill()          { m.w.refuse(m.Member); m.Member.Kill() }
func (m inMemory) Restart()       { m.Member.Restart(); m.w.accept(m.Member) }

// simulated is the cluster in memory.
type simulated struct{ *world }

func (s simulated) ends(session int64) bool { return s.ensemble.Expire(session) }

func (s simulated) member(random *rand.Rand) member {
	all := s.ensemble.Members()
	m := all[random.IntN(len(all))]
	if leader := s.ensemble.Leader(); leader != nil && random.IntN(2) == 0 {
		m = leader
	}
	return inMemory{m, s.world}
}

// left returns the nodes in the locks' directories.
func (s simulated) left() (nodes []standing) {
	dirs := make(map[string]bool)
	for _, l := range s.hosts[0].client().locks {
		dirs[l.dir] = true
	}
	for path, owner := range s.ensemble.Nodes() {
		if owner != 0 && owner != s.admin.Client().SessionID() && dirs[dirOf(path)] {
			nodes = append(nodes, standing{path, owner})
		}
	}
	slices.SortFunc(nodes, func(a, b standing) int { return strings.Compare(a.path, b.path) })
	return nodes
}

// heal ends all faults.
func (w *world) heal() {
	for _, h := range w.hosts {
		h.net.heal()
	}
	w.say("", "all faults are over")
}
