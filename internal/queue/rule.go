// Package queue is the shared core of the recipes: stand in line, wait for your
// turn, hold, leave. A recipe is a Rule and a few lines around it.
//
// The line is a directory; a member is one or more ephemeral sequential nodes
// in it; the order is that of their sequence numbers.
package queue

import (
	"slices"

	"github.com/zklocks/zklocks/internal/znode"
)

// Rule decides when a member may go: when at most Tolerate of the nodes ahead of
// its first one that block it are left. It is pure.
//
// While k > Tolerate of them live, the member keeps the nearest Tolerate+1
// watched, or more, see Together. Then at most k-Tolerate-1 are not watched, and
// k-Tolerate must go before its turn comes; so by the pigeonhole principle at least
// one of those that go is watched, and no wake-up is missed. Nobody else is woken.
type Rule struct {
	// Blocks tells which of the nodes ahead count.
	Blocks func(ahead znode.Node) bool
	// Tolerate is how many of them may be left.
	Tolerate int
	// Together tells which of them hold the lock at the same time. If the nearest is
	// such a one, those that stand beside it are watched as well, so that the line
	// need not be listed again for each that goes. Each of them still wakes
	// nobody but the first behind them all. It may be nil, if none does.
	Together func(ahead znode.Node) bool
	// Alone tells which of these hold the lock alone, with nobody ahead, see
	// Turn.Marked. It may be nil, if none does.
	Alone func(ahead znode.Node) bool
	// Replaced tells whether another node, that blocks as well, may stand in
	// the place of one that is gone: a write lock that was downgraded. Then
	// only a new listing can tell. Whoever replaces one of our nodes writes
	// into it first, in the same transaction, and so uses up its watch; seen
	// says that a watch has seen the deletion, and nothing written before. It
	// may be nil.
	Replaced func(gone znode.Node, seen bool) bool
}

// Turn is what a member knows of those ahead of it, from one listing on.
type Turn struct {
	rule     Rule
	left     int          // how many blockers there are, as far as it knows
	nearest  []znode.Node // those of them to keep watched, the nearest first
	struck   bool         // one has gone since the listing
	replaced bool         // one that has gone may have a successor in its place
}

// Turn reads a line, which is in order, for the member whose first node is first.
func (r Rule) Turn(line []znode.Node, first znode.Node) Turn {
	t := Turn{rule: r}
	for i := len(line) - 1; i >= 0; i-- {
		if n := line[i]; n.Seq < first.Seq && r.Blocks(n) {
			if t.left++; t.left <= r.Tolerate+1 || t.left == len(t.nearest)+1 && t.joins(n) {
				if t.nearest == nil {
					t.nearest = make([]znode.Node, 0, min(r.Tolerate, i)+1)
				}
				t.nearest = append(t.nearest, n)
			}
		}
	}
	return t
}

// maxTogether bounds how many are watched at once of those who hold together: of a
// thousand readers, who go in any order, a writer so learns with a few listings that
// all have gone, and is not woken a thousand times.
const maxTogether = 16

// joins reports whether n, which stands right ahead of those in nearest, holds
// together with them.
func (t *Turn) joins(n znode.Node) bool {
	together := t.rule.Together
	return together != nil && len(t.nearest) < maxTogether && together(n) && together(t.nearest[len(t.nearest)-1])
}

// Behind is the turn of a member that knows of one blocker and of nobody else. Only
// a watch that sees its deletion tells anything: one that is not there may have gone
// together with its directory, and others may stand in the one that was made anew.
func (r Rule) Behind(n znode.Node) Turn {
	replaced := r.Replaced
	r.Replaced = func(gone znode.Node, seen bool) bool {
		return !seen || replaced != nil && replaced(gone, seen)
	}
	return Turn{rule: r, left: 1, nearest: []znode.Node{n}}
}

// MayGo reports whether so few blockers are left that it is the member's turn.
func (t *Turn) MayGo() bool { return !t.replaced && t.left <= t.rule.Tolerate }

// Stale reports whether it takes a new listing to know more: some have gone, it is
// not the member's turn yet, and too few are watched still, for others further ahead
// may have gone unwatched.
func (t *Turn) Stale() bool {
	return t.struck && !t.MayGo() && (t.replaced || len(t.nearest) <= t.rule.Tolerate)
}

// IsNext reports whether it is the member's turn when enough of those that are
// watched have gone: there are no others.
func (t *Turn) IsNext() bool { return !t.replaced && t.left == len(t.nearest) }

// Watch returns the blockers to keep watched, the nearest first.
func (t *Turn) Watch() []znode.Node { return slices.Clone(t.nearest) }

// Gone strikes out a blocker that was to be watched and has been deleted; for seen
// see Rule.Replaced. Of any other it is not known whether it was counted, and
// nothing is done.
func (t *Turn) Gone(n znode.Node, seen bool) {
	i := slices.Index(t.nearest, n)
	if i < 0 {
		return
	}
	t.nearest = slices.Delete(t.nearest, i, i+1)
	t.left--
	t.struck = true
	if t.rule.Replaced != nil && t.rule.Replaced(n, seen) {
		t.replaced = true
	}
}

// AsksHow reports whether a watch has to tell what happened to a blocker before it went,
// see Rule.Replaced.
func (t *Turn) AsksHow() bool {
	return t.rule.Replaced != nil && slices.ContainsFunc(t.nearest, func(n znode.Node) bool { return t.rule.Replaced(n, false) })
}

// MayBeMarked reports whether the nearest blocker may be released with a mark that
// makes a difference: if it is the only one, it makes none.
func (t *Turn) MayBeMarked() bool {
	return !t.IsNext() && t.rule.Alone != nil && len(t.nearest) > 0 && t.rule.Alone(t.nearest[0])
}

// Marked strikes out everybody: the nearest blocker has been released by its holder,
// before whom nobody stood any more.
func (t *Turn) Marked() { t.left, t.nearest, t.struck = 0, nil, true }
