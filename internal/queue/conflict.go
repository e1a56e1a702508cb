package queue

import (
	"slices"

	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// A Mode is how a node wants the lock.
type Mode uint8

const (
	Read         Mode = iota // shared with other reads
	Write                    // excludes reads and writes
	CuratorWrite             // the same, by a client that downgrades without writing into the node first
	Mutex                    // excludes all others
	Permit                   // shared with as many others as there are permits
)

// modes has a row for each mode.
var modes = [...]struct {
	waitsFor []Mode // it waits for nodes of these modes that are ahead
	// exclusive nodes hold alone: while an exclusive node holds, no waiter behind it waits for a
	// node ahead of the holder.
	exclusive bool
	observed  observe.Kind
}{
	Read:         {waitsFor: []Mode{Write, CuratorWrite}, observed: observe.KindRead},
	Write:        {waitsFor: []Mode{Read, Write, CuratorWrite}, exclusive: true, observed: observe.KindWrite},
	CuratorWrite: {waitsFor: []Mode{Read, Write, CuratorWrite}, exclusive: true, observed: observe.KindWrite},
	Mutex:        {waitsFor: []Mode{Mutex}, exclusive: true, observed: observe.KindMutex},
	Permit:       {waitsFor: []Mode{Permit}, observed: observe.KindPermits},
}

// announced reports whether a waiter must write the directory's data in the transaction that
// creates its node, because readers that share a node rely on that (invariant 14).
func announced(kind znode.Kind) bool { return kind == znode.Write }

// touches reports whether a waiter writes the directory's data. Those that need not announce
// themselves do so only because the reply then has the number of children. If the client lacks the
// right, or the data are another program's, they create their nodes without this write.
func (q *Queue) touches(kind znode.Kind) bool {
	return announced(kind) || q.cfg.Names.mode(kind) != Read && !q.untouchable.Load()
}

// Names are the kinds of node that a queue has, and the mode of each.
type Names []Name

// A Name gives a kind its mode.
type Name struct {
	Kind znode.Kind
	Mode Mode
}

// mode returns the mode of a kind.
func (names Names) mode(kind znode.Kind) Mode {
	for _, name := range names {
		if name.Kind == kind {
			return name.Mode
		}
	}
	panic("queue: a node of kind " + string(kind) + " in a queue of other kinds")
}

// A rule says when it is a waiter's turn: when at most allowed of its blockers are left. Blockers
// are the nodes ahead of the waiter's first node that it waits for.
//
// A waiter is near if at most as many blockers must go as there are permits. It watches all of its
// blockers and counts the deletions: it sends no request before its turn.
//
// A waiter that is not near watches the nearest allowed+1. If k blockers exist, k-allowed-1 are not
// watched, and k-allowed must be deleted before its turn comes. By the pigeonhole principle at
// least one of the deleted blockers is watched, so no wake-up is missed. When the holder of a
// watched blocker deletes it, at most the other permits are held ahead of it. The waiter lists
// again then, and is near or granted. So it lists at most twice, whatever the number of permits is
// and in whatever order they are released. docs/maintainers/semaphore.md has the figures.
type rule struct {
	names   Names
	mode    Mode
	allowed int
	nodes   int // of the waiter
}

// near reports whether a waiter with so many blockers watches all of them.
func (r rule) near(blockers int) bool { return blockers-r.allowed <= r.allowed+r.nodes }

func (r rule) waitsFor(ahead znode.Node) bool {
	return slices.Contains(modes[r.mode].waitsFor, r.names.mode(ahead.Kind))
}

// mayBeReplaced (invariant 5) reports whether another node that r waits for may stand in the place
// of a deleted node: a downgrade replaces a write node by a read node with the same number, in one
// transaction. seen says that a watch has reported the deletion.
func (r rule) mayBeReplaced(gone znode.Node, seen bool) bool {
	if !slices.Contains(modes[r.mode].waitsFor, Read) {
		return false
	}
	switch r.names.mode(gone.Kind) {
	case Write:
		return !seen // the transaction writes into the node first, so the watch reports a change instead
	case CuratorWrite:
		return true
	}
	return false
}

// blockers are the nodes that a waiter waits for, according to one listing and the events since. It
// does no I/O.
type blockers struct {
	rule    rule
	left    int          // how many exist
	watched []znode.Node // all of them or only the nearest; the nearest first
	first   znode.Node   // the first in the queue, as of the listing
	bug     bug
}

// A bug is the number of an invariant of doc.go that was found broken; 0: none was. A grant that
// rests on it ends as lost (newGrant).
type bug int

// unless records that invariant n is broken, unless it holds.
func (b *bug) unless(holds bool, n int) {
	if !holds {
		*b = bug(n)
	}
}

// blockers reads a sorted listing, for the waiter with the given first node.
func (r rule) blockers(queue []znode.Node, first znode.Node) blockers {
	b := blockers{rule: r}
	for i := len(queue) - 1; i >= 0; i-- {
		if n := queue[i]; n.Seq < first.Seq && r.waitsFor(n) {
			b.first = n
			if b.left++; r.near(b.left) {
				if b.watched == nil {
					b.watched = make([]znode.Node, 0, max(0, min(r.allowed, i))+1)
				}
				b.watched = append(b.watched, n)
			}
		}
	}
	if !r.near(b.left) {
		b.watched = b.watched[:min(len(b.watched), max(0, r.allowed+1))]
	}
	return b
}

// clear reports whether so few blockers are left that it is the waiter's turn.
func (b *blockers) clear() bool { return b.left <= b.rule.allowed }

// allWatched reports whether all blockers that are left are watched. Only then can deletions of
// watched blockers alone make it the waiter's turn.
func (b *blockers) allWatched() bool { return b.left == len(b.watched) }

// wakes reports whether an event of a watched blocker comes before it is the waiter's turn.
func (b *blockers) wakes() bool { return b.allWatched() || len(b.watched) > b.rule.allowed }

// ahead returns how many blockers must go before it is the waiter's turn.
func (b *blockers) ahead() int { return max(0, b.left-b.rule.allowed) }

// remove strikes out the watched blocker i, which was deleted. seen says that its watch has
// reported the deletion; otherwise the node did not exist when the watch was set.
func (b *blockers) remove(i int, seen bool) {
	n := b.watched[i]
	b.watched = slices.Delete(b.watched, i, i+1)
	if b.rule.mayBeReplaced(n, seen) {
		return // left is unchanged, so the waiter lists again
	}
	b.left--
}

// mayBeMarked reports whether it is worth watching for a release marker of the nearest blocker. It
// is not if all blockers are watched.
func (b *blockers) mayBeMarked() bool {
	return !b.allWatched() && modes[b.rule.names.mode(b.watched[0].Kind)].exclusive
}

// releasedByHolder strikes out all blockers: the nearest has held, so none of the others was ahead
// of it.
func (b *blockers) releasedByHolder() { b.left = 0 }
