package memnet

import (
	"slices"
	"time"
)

// way is the state of the network in the direction from one host to another.
type way struct {
	hole   bool // loses packets
	frozen bool // holds packets until it thaws
	delay  time.Duration
}

// A rule sets one property of the ways that it covers. The newest rule that covers a way wins. So a
// host can be partitioned from all others and then connected to one of them.
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

// covers reports whether the rule applies to packets between the two hosts. A host always reaches
// itself, unless a rule names the host twice.
func (r rule) covers(from, to string) bool {
	if from == to {
		return r.from == from && r.to == to
	}
	return (r.from == Any || r.from == from) && (r.to == Any || r.to == to)
}

// hides reports whether r makes an older rule ineffective.
func (r rule) hides(older rule) bool {
	return r.what == older.what &&
		(r.from == older.from && r.to == older.to ||
			(older.from == Any || older.to == Any || older.from != older.to) &&
				(r.from == Any || r.from == older.from) && (r.to == Any || r.to == older.to))
}

// way returns the state of the way between two hosts; caller holds mu.
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

// A Path is the part of the network that a fault affects, in one direction or in both.
type Path struct {
	n    *Network
	ways [][2]string // from, to
}

// Between returns both directions between two hosts. Each may be Any.
func (n *Network) Between(a, b string) Path { return Path{n, [][2]string{{a, b}, {b, a}}} }

// OneWay returns the direction from one host to another. Each may be Any.
func (n *Network) OneWay(from, to string) Path { return Path{n, [][2]string{{from, to}}} }

// Cut resets the present connections. Data that had arrived can still be read. In one direction
// only the receiving end detects the reset; the other end detects it at its next write.
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

// Partition makes a black hole: connections remain open, and everything that is sent is lost,
// including the end of a connection and packets that a delay holds up. Dials wait.
func (p Path) Partition() { p.set(rule{what: hole, on: true}) }

// Freeze holds everything that is sent until Thaw. Dials wait.
func (p Path) Freeze() { p.set(rule{what: frozen, on: true}) }

// Thaw ends Freeze: the held packets arrive.
func (p Path) Thaw() { p.set(rule{what: frozen}) }

// Delay delays everything that is sent from now on by d, in order. 0 ends it.
func (p Path) Delay(d time.Duration) { p.set(rule{what: delay, delay: d}) }

// Heal ends Partition, Freeze and Delay. It cuts connections that have lost bytes, because a stream
// cannot have a gap.
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

// reroute applies new rules; caller holds mu.
func (n *Network) reroute() {
	for c := range n.conns {
		c.reroute(n.way(hostOf(string(c.remote)), hostOf(string(c.local))))
	}
	n.wake()
}

// tidy drops the oldest rules if they have no effect, or n.rules would grow with each Heal; caller
// holds mu.
func (n *Network) tidy() {
	for len(n.rules) > 0 && !n.rules[0].on && n.rules[0].delay == 0 {
		n.rules = n.rules[1:]
	}
}
