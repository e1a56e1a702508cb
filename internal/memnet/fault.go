package memnet

import (
	"slices"
	"time"
)

// way is what the network does with packets from one host to another.
type way struct {
	hole   bool // loses them
	frozen bool // keeps them until it thaws
	delay  time.Duration
}

// A rule sets one property of the ways that it covers. The newest rule that covers a way wins, so
// that a host can be parted from all others and then joined to one of them.
type rule struct {
	from, to string // a host or Any
	what     property
	on       bool
	delay    time.Duration
}

type property int

const (
	hole property = iota
	frozen
	delay
	numProperties
)

// covers reports whether the rule is about packets between the two hosts. A host keeps reaching
// itself, unless a rule names it twice.
func (r rule) covers(from, to string) bool {
	if from == to {
		return r.from == from && r.to == to
	}
	return (r.from == Any || r.from == from) && (r.to == Any || r.to == to)
}

// hides reports whether r leaves nothing to an older rule.
func (r rule) hides(older rule) bool {
	return r.what == older.what &&
		(r.from == older.from && r.to == older.to ||
			(older.from == Any || older.to == Any || older.from != older.to) &&
				(r.from == Any || r.from == older.from) && (r.to == Any || r.to == older.to))
}

// way returns what happens to packets between two hosts; caller holds mu.
func (n *Network) way(from, to string) (w way) {
	var found [numProperties]bool
	for _, r := range slices.Backward(n.rules) {
		if found[r.what] || !r.covers(from, to) {
			continue
		}
		found[r.what] = true
		switch r.what {
		case hole:
			w.hole = r.on
		case frozen:
			w.frozen = r.on
		case delay:
			w.delay = r.delay
		}
	}
	if from != to {
		w.delay += n.latency
	}
	return w
}

// A Path is what a fault is about: the ways between hosts, in one direction or in both.
type Path struct {
	n    *Network
	ways [][2]string // from, to
}

// Between is both directions between two hosts, either of which may be Any.
func (n *Network) Between(a, b string) Path { return Path{n, [][2]string{{a, b}, {b, a}}} }

// OneWay is the direction from one host to another, either of which may be Any.
func (n *Network) OneWay(from, to string) Path { return Path{n, [][2]string{{from, to}}} }

// Cut resets connections now and leaves the network as it is. What had arrived can still be read.
// In one direction, only the receiving end learns of it, and the other end when it next writes.
func (p Path) Cut() {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	for c := range p.n.conns {
		from, to := hostOf(string(c.remote)), hostOf(string(c.local))
		for _, w := range p.ways {
			if (rule{from: w[0], to: w[1]}).covers(from, to) {
				c.reset()
			}
		}
	}
}

// Partition makes a black hole: connections stay, and all that is sent is lost, also the end of a
// connection, and what a delay has not delivered yet. Dials wait.
func (p Path) Partition() { p.set(rule{what: hole, on: true}) }

// Freeze keeps what is sent until Thaw. Dials wait.
func (p Path) Freeze() { p.set(rule{what: frozen, on: true}) }

// Thaw ends Freeze: what was kept arrives.
func (p Path) Thaw() { p.set(rule{what: frozen}) }

// Delay delays what is sent from now on by that much, in order. 0 ends it.
func (p Path) Delay(d time.Duration) { p.set(rule{what: delay, delay: d}) }

// Heal ends Partition, Freeze and Delay. Connections that have lost bytes are cut, because a stream
// never has a gap.
func (p Path) Heal() { p.set(rule{what: hole}, rule{what: frozen}, rule{what: delay}) }

func (p Path) set(rules ...rule) {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range rules {
		for _, w := range p.ways {
			r.from, r.to = w[0], w[1]
			n.rules = append(slices.DeleteFunc(n.rules, r.hides), r)
		}
	}
	n.tidy()
	n.reroute()
}

// reroute puts new rules into force; caller holds mu.
func (n *Network) reroute() {
	for c := range n.conns {
		c.reroute(n.way(hostOf(string(c.remote)), hostOf(string(c.local))))
	}
	n.wake()
}

// tidy drops the oldest rules that say what would be without them, or n.rules grew with each Heal;
// caller holds mu.
func (n *Network) tidy() {
	for len(n.rules) > 0 && !n.rules[0].on && n.rules[0].delay == 0 {
		n.rules = n.rules[1:]
	}
}
