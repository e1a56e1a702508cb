package queue

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/session"
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
// That is a matter of fairness and not of safety: whoever comes along holds by
// a node that stands in line, and those behind wait for it.
type Company struct {
	// Overtakes tells which nodes behind would be wronged.
	Overtakes func(behind znode.Node) bool

	view atomic.Pointer[companyView]
}

// companyView is what the last look at the line has shown.
type companyView struct {
	client   *session.Client
	session  int64
	stretch  uint64
	arrivals *session.Watch // nil: somebody stands behind already
	own      []*session.Watch
}

// Welcome reports whether one more may come along. Before the member's first look
// at the line they all may: they come at the same time as it does.
func (c *Company) Welcome() bool {
	v := c.view.Load()
	if v == nil {
		return true
	}
	if v.arrivals == nil {
		return false
	}
	if _, fired := v.arrivals.Fired(); fired {
		return false
	}
	for _, w := range v.own {
		if _, fired := w.Fired(); fired {
			return false
		}
	}
	// Since a reconnect, or while there is no connection, news may be late.
	now, _ := v.client.Unbroken()
	return now == v.stretch && v.client.Up(v.session)
}

// Arrivals is the watch that fires when somebody comes who would be overtaken,
// and nil if somebody has.
func (c *Company) Arrivals() *session.Watch {
	if v := c.view.Load(); v != nil {
		return v.arrivals
	}
	return nil
}

// looked takes note of a look at the line. The listing and the watch were asked
// for side by side: only if both have seen the directory with the same data is
// whoever has come since then sure to fire the watch.
func (c *Company) looked(m *member, line []znode.Node, dir *zk.Stat, arrivals *session.Watch, stretch uint64) {
	v := &companyView{client: m.line.client, session: m.sess, stretch: stretch, own: m.own}
	behind := func(n znode.Node) bool { return n.Seq > m.nodes[0].Seq && c.Overtakes(n) }
	if arrivals != nil && dir != nil && arrivals.Stat.Mzxid == dir.Mzxid && !slices.ContainsFunc(line, behind) {
		v.arrivals = arrivals
	}
	c.view.Store(v)
}

// arrivals watches the data of the directory; nil if that is not possible, which
// the listing beside it reports better.
func (l *Line) arrivals(ctx context.Context, sess int64) *session.Watch {
	w, err := l.client.Watch(ctx, sess, l.dir)
	if err != nil {
		return nil
	}
	return w
}
