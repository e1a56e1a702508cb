package queue

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Company tells whether others of the process may come along on a member's
// place instead of standing in line themselves: as long as nobody is known to
// stand behind it whom they would overtake.
//
// Those who are overtaken must announce themselves, by touching the directory in
// the transaction that makes their node (Entry.Announce). Then their coming costs
// the others one notification, and those who do not announce themselves none.
//
// To come along is a matter of fairness and not of safety: whoever does so holds
// by a node that stands in line, and those behind wait for it.
type Company struct {
	// Overtakes tells which nodes behind would be wronged. They are also those
	// that block the member when they are ahead.
	Overtakes func(behind znode.Node) bool
	// Calm, if not nil, is what all companies of one line know together.
	Calm *Calm

	view atomic.Pointer[view]
}

// Calm is a look at the line that has shown none of those who announce themselves,
// neither ahead nor behind. While it lasts, whoever makes a node knows without
// listing that nobody blocks it: an announcement is ordered before the reply to
// the create, or behind the create.
//
// It takes a watch each time that a writer has come since the last look. Where
// writers come so often that nobody makes use of that, most looks do without.
type Calm struct {
	// Always sets the watch at each look.
	Always bool

	view   atomic.Pointer[view]
	last   atomic.Pointer[view] // the last one with a watch
	unused atomic.Int32         // looks in a row that were of no use to anybody later
}

const (
	mostUnused = 2  // from then on only
	everySo    = 32 // many looks set the watch
)

// watches reports whether a look should set the watch.
func (c *Calm) watches() bool {
	if c == nil || c.Always {
		return true
	}
	n := c.unused.Load()
	if n < mostUnused || n%everySo == 0 {
		return true
	}
	c.unused.Add(1)
	return false
}

// replaces takes note of what came of the last watch, now that there is another.
func (c *Calm) replaces(v *view) {
	last := c.last.Swap(v)
	switch {
	case last == nil:
	case last.used.Load():
		c.unused.Store(0)
	default:
		c.unused.Add(1)
	}
}

// view is what a look at the line has shown, and what tells that it still holds.
type view struct {
	client   *zkclient.Client
	session  int64
	epoch    uint64
	arrivals *zkclient.Watch // nil: somebody stands behind already, or nobody looks out
	line     *Line
	blind    bool  // nobody looks out, and nobody stood behind
	mzxid    int64 // of the directory's data
	used     atomic.Bool
}

// use takes note that somebody has made use of the watch. Many may do so at once.
func (v *view) use() {
	if !v.used.Load() {
		v.used.Store(true)
	}
}

// holds reports whether nobody has come since.
func (v *view) holds() bool {
	if v.arrivals == nil {
		return false
	}
	if _, fired := v.arrivals.Fired(); fired {
		return false
	}
	// Since a reconnect, or while there is no connection, news may be late.
	now := v.client.Epoch()
	return now == v.epoch && v.client.Up(v.session)
}

// Welcome reports whether one more may come along. Before the member's first look
// at the line they all may: they come at the same time as it does.
func (c *Company) Welcome() bool {
	v := c.view.Load()
	if v == nil {
		return true
	}
	if !v.holds() {
		return false
	}
	v.use()
	return true
}

// IsBlind reports whether nobody looks out for those who come, see LookOut.
func (c *Company) IsBlind() bool {
	v := c.view.Load()
	return v != nil && v.blind
}

// LookOut sets the watch that the look at the line has done without, now that
// somebody wants to come along. If the directory's data are still those of that
// look, nobody has come in between. It reports whether it had to ask.
func (c *Company) LookOut(ctx context.Context) (asked bool) {
	v := c.view.Load()
	if v == nil || !v.blind {
		return false
	}
	w := v.line.arrivals(ctx, v.session)
	if w == nil {
		return true // the next may have more luck
	}
	now := &view{client: v.client, session: v.session, epoch: v.epoch}
	if w.Stat.Mzxid == v.mzxid {
		now.arrivals = w
	}
	if c.view.CompareAndSwap(v, now) && c.Calm != nil {
		c.Calm.replaces(now)
	}
	return true
}

// Arrivals is the watch that fires when somebody comes who would be overtaken,
// and nil if somebody has.
func (c *Company) Arrivals() *zkclient.Watch {
	if v := c.view.Load(); v != nil {
		return v.arrivals
	}
	return nil
}

// joinsCalm reports whether the line was calm when the member's node was made, in
// that session and epoch of the connection, and still is.
func (c *Company) joinsCalm(session int64, epoch uint64) bool {
	if c.Calm == nil {
		return false
	}
	v := c.Calm.view.Load()
	if v == nil || v.session != session || v.epoch != epoch || !v.holds() {
		return false
	}
	v.use()
	c.view.Store(v)
	return true
}

// looked takes note of a look at the line. The listing and the watch were asked
// for side by side: only if both have seen the directory with the same data is
// whoever has come since then sure to fire the watch.
func (c *Company) looked(m *member, line []znode.Node, dir *zk.Stat, arrivals *zkclient.Watch, epoch uint64) {
	v := &view{client: m.line.client, session: m.sess, epoch: epoch, line: m.line}
	behind := func(n znode.Node) bool { return n.Seq > m.nodes[0].Seq && c.Overtakes(n) }
	switch {
	case dir == nil || slices.ContainsFunc(line, behind):
	case arrivals == nil:
		v.blind, v.mzxid = true, dir.Mzxid
	case arrivals.Stat.Mzxid == dir.Mzxid:
		v.arrivals = arrivals
	}
	c.view.Store(v)
	if c.Calm != nil && arrivals != nil {
		c.Calm.replaces(v)
	}
	if c.Calm != nil && v.arrivals != nil && !slices.ContainsFunc(line, c.Overtakes) {
		c.Calm.view.Store(v)
	}
}

// arrivals watches the data of the directory; nil if that is not possible, which
// the listing beside it reports better.
func (l *Line) arrivals(ctx context.Context, sess int64) *zkclient.Watch {
	w, err := l.client.Watch(ctx, sess, l.dir)
	if err != nil {
		return nil
	}
	return w
}
