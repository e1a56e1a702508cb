package bench

import (
	"math"
	"testing"
)

// costs are the server's costs in a run, in microseconds of one processor.
type costs struct {
	Write    float64 // a create or a delete
	Read     float64 // a listing, or a read of a node
	HandOver float64 // time between two grants of one lock
	Reads    float64 // reads in a contended cycle
}

// capacity is the computed capacity of an ensemble: every member does all writes, and the reads of
// its own sessions. It excludes the leader's extra work and the network, so it is an upper bound.
type capacity struct {
	Members                         int
	Free, Contended, Locks, Holders string
}

// perMember returns the processor time of one cycle on each member.
func (c costs) perMember(members int, reads float64) float64 {
	return 2*c.Write + reads*c.Read/float64(members)
}

// cycles returns how many cycles a second are possible if each member has one processor for them.
func (c costs) cycles(members int, reads float64) float64 {
	return 1e6 / c.perMember(members, reads)
}

// sessions returns how many idle sessions with holds can be kept alive. Each sends a heartbeat,
// which is a write, every 3/16 of its timeout, and as many pings, which only its own member
// handles.
func (c costs) sessions(members int, timeout float64) float64 {
	heartbeats := 16 / (3 * timeout)
	return 1e6 / (heartbeats * (c.Write + c.Read/float64(members)))
}

// measuredCosts computes the costs of a write and a read. A cycle without contention is two writes
// for us; zk.Lock also lists.
func measuredCosts(speed, queues []result) (costs, bool) {
	idle, ok1 := find(speed, free.name, ours)
	listing, ok2 := find(speed, free.name, zkLock)
	busy, ok3 := find(queues, lines[2].name, ours)
	if !ok1 || !ok2 || !ok3 || idle.processor == 0 || busy.perSecond == 0 {
		return costs{}, false
	}
	c := costs{
		Write:    idle.processor / 2,
		Read:     (listing.processor - idle.processor) / (listing.requests - idle.requests),
		HandOver: handOver(busy),
		Reads:    math.Max(busy.requests-2, 0),
	}
	return c, c.Write > 0 && c.Read > 0
}

// assumedTimeout is the session timeout of the paper's holders, in seconds.
const assumedTimeout = 10.0

func (r *report) Costs() *costs {
	if c, ok := measuredCosts(r.speed, r.queues); ok {
		return &c
	}
	return nil
}

func (c costs) WriteTime() string    { return duration(c.Write) }
func (c costs) ReadTime() string     { return duration(c.Read) }
func (c costs) HandOverTime() string { return duration(c.HandOver) }
func (c costs) ReadsPerCycle() string {
	return perCycle(c.Reads)
}

func (c costs) PerLock() string { return number(1e6 / c.HandOver) }

// Ensembles returns the usual sizes of ensembles.
func (c costs) Ensembles() []capacity {
	var all []capacity
	for _, members := range []int{1, 3, 5} {
		contended := c.cycles(members, c.Reads)
		all = append(all, capacity{
			Members:   members,
			Free:      number(twoDigits(c.cycles(members, 0))),
			Contended: number(twoDigits(contended)),
			Locks:     number(math.Max(1, contended*c.HandOver/1e6)),
			Holders:   number(twoDigits(c.sessions(members, assumedTimeout))),
		})
	}
	return all
}

// twoDigits rounds to the precision of a computed figure.
func twoDigits(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}

func TestPaper(t *testing.T) {
	c := costs{Write: 50, Read: 30, HandOver: 1000, Reads: 3}
	for _, x := range []struct {
		what      string
		got, want float64
	}{
		{"free cycles", c.cycles(3, 0), 10_000},
		{"more members make no write faster", c.cycles(5, 0), 10_000},
		{"contended cycles, one member", c.cycles(1, c.Reads), 1e6 / 190},
		{"reads are divided among three", c.cycles(3, c.Reads), 1e6 / 130},
		{"sessions with a heartbeat every 1.5 s", c.sessions(1, 8), 1e6 * 1.5 / 80},
		{"two digits", twoDigits(12_345), 12_000},
		{"two digits of a small number", twoDigits(0.1234), 0.12},
	} {
		if math.Abs(x.got-x.want) > x.want/1e9 {
			t.Errorf("%s: %v, want %v", x.what, x.got, x.want)
		}
	}
	got, ok := measuredCosts(paper())
	if want := c; !ok || got != want {
		t.Errorf("measured %+v (%v), want %+v", got, ok, want)
	}
	if _, ok := measuredCosts(nil, nil); ok {
		t.Error("costs out of nothing")
	}
}

// paper returns round figures to compute the costs from.
func paper() (speed, queues []result) {
	measured := func(w workload, peer string, processor, requests, perSecond float64) result {
		return result{workload: w, peer: peer, sample: sample{processor: processor, requests: requests, perSecond: perSecond}}
	}
	return []result{measured(free, ours, 100, 2, 5000), measured(free, zkLock, 130, 3, 4000)},
		[]result{measured(lines[2], ours, 190, 5, 1000)}
}
