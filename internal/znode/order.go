package znode

import (
	"errors"
	"fmt"
	"slices"
)

// A directory's sequence counter is a signed 32-bit number. At its end a real server does not wrap
// it as documented: several nodes get 2147483647, or negative numbers repeat. A client that orders
// by such numbers grants twice. So no client queues near the end, and releases try to delete the
// directory long before, which resets the counter.
const (
	// lastSequence is the number from which on no node queues. It leaves 2^20 numbers for creates
	// that are in flight.
	lastSequence = 1<<31 - 1<<20
	// renewSequence is the number from which on each release tries to delete the directory.
	renewSequence = 1 << 30
)

// ErrSequence means that the directory's sequence numbers no longer give an order.
var ErrSequence = errors.New("the directory's sequence numbers are used up: let the lock fall idle and delete its directory, which starts the count again")

// ErrTwice means that two members have the same sequence number although the numbers are not used
// up. Only a broken server shows that: it has kept a node that the other servers never had.
var ErrTwice = errors.New("two members have one sequence number: this server does not have the data of the others")

// NearSequenceLimit reports whether the directory should be deleted as soon as it is empty. A
// directory with kazoo's names is kept: a kazoo lock creates it once and fails when it is gone.
func (n Node) NearSequenceLimit() bool { return n.Seq >= renewSequence && !n.Kind.bare() }

// Usable returns an error that matches ErrSequence if a node with this number must not queue.
func (n Node) Usable() error {
	if n.Seq < 0 || n.Seq >= lastSequence {
		return fmt.Errorf("%w (sequence %d)", ErrSequence, n.Seq)
	}
	return nil
}

// Sort returns the members of the given kinds in the order of their sequence numbers. It returns an
// error if the order cannot be trusted: ErrSequence for negative numbers, ErrTwice for repeated
// numbers. Two members may share a number only during a downgrade; their order is not defined.
func Sort(children []string, kinds ...Kind) ([]Node, error) {
	line := make([]Node, 0, len(children))
	for _, name := range children {
		if n, ok := Parse(name, kinds...); ok {
			line = append(line, n)
		}
	}
	order(line)
	for i, n := range line {
		switch twice := i > 0 && n.Seq == line[i-1].Seq; {
		case n.Seq < 0, twice && n.Seq >= lastSequence:
			return nil, fmt.Errorf("%w (%s)", ErrSequence, n.Name)
		case twice && !downgrading(line[i-1], n):
			return nil, fmt.Errorf("%w (%s and %s)", ErrTwice, line[i-1].Name, n.Name)
		}
	}
	return line, nil
}

// Other returns the member with the smallest number that belongs to a lock of another kind than
// these. Kazoo's two kinds are of one lock.
func Other(children []string, kinds ...Kind) (first Node, found bool) {
	others := slices.DeleteFunc(slices.Clone(Kinds), func(kind Kind) bool {
		return slices.Contains(kinds, kind) || kind.bare() && slices.ContainsFunc(kinds, Kind.bare)
	})
	for _, name := range children {
		if n, ok := Parse(name, others...); ok && (!found || n.Seq < first.Seq) {
			first, found = n, true
		}
	}
	return first, found
}

// order sorts by sequence number. It sorts the numbers, because a node is seven times as large.
func order(line []Node) {
	const (
		shift = 28      // bits for the index in line
		zero  = 1 << 34 // larger than any ten-digit number, so that negative numbers sort, too
	)
	var few [64]uint64
	keys := slices.Grow(few[:0], len(line))
	for i, n := range line {
		keys = append(keys, uint64(n.Seq+zero)<<shift|uint64(i))
	}
	slices.Sort(keys)
	from := func(i int) int { return int(keys[i] & (1<<shift - 1)) }
	for start := range line {
		if from(start) == start {
			continue
		}
		// Follow a cycle of nodes that move to each other's index.
		first, to := line[start], start
		for next := from(to); next != start; next = from(to) {
			line[to] = line[next]
			keys[to] = uint64(to) // its own node is there now
			to = next
		}
		line[to] = first
		keys[to] = uint64(to)
	}
}

// downgrading reports whether two nodes with one number may belong to one holder in a JVM: since
// 5.5.0 Curator's downgrade creates the read node with the number of the write node, and deletes
// the write node later.
func downgrading(a, b Node) bool {
	return a.Kind == CuratorRead && b.Kind == CuratorWrite || a.Kind == CuratorWrite && b.Kind == CuratorRead
}

// Alone returns an error that matches ErrTwice if another member has n's number. This library never
// creates such nodes.
func (n Node) Alone(line []Node) error {
	for _, other := range line {
		if other.Seq == n.Seq && other.Name != n.Name {
			return fmt.Errorf("%w (%s and %s)", ErrTwice, n.Name, other.Name)
		}
	}
	return nil
}
