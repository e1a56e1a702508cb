package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Member is a holder or a waiter, as seen from outside. It has the fields of zklocks.Member, which documents them.
type Member struct {
	Path    string
	Kind    observe.Kind
	Permits int
	Holding bool
	Since   time.Time
	Session int64
	Token   int64
	Data    []byte
	Host    string
	Pid     int
}

// standing is a member and its nodes.
type standing struct {
	Member
	First znode.Node // the first of its nodes
	Nodes int
}

// readers bounds how many nodes are read at a time.
const readers = 16

// Members lists who holds and who waits, in order. ruleOf says by which rule a
// member with that many nodes stands in line.
func (l *Line) Members(ctx context.Context, ruleOf func(first znode.Node, nodes int) Rule) ([]Member, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	line, _, err := l.list(ctx, zkclient.AnySession)
	if err != nil {
		return nil, err
	}
	members := group(line)
	errs := make([]error, len(members))
	slots := make(chan struct{}, readers)
	var all sync.WaitGroup
	for i := range members {
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = l.describe(ctx, &members[i])
			<-slots
		})
	}
	all.Wait()
	var present []standing
	for i, m := range members {
		switch errs[i] {
		case nil:
			present = append(present, m)
		case zk.ErrNoNode:
			// It has left since the listing. Those behind it are judged
			// without it, or a free lock would be shown beside waiters.
			line = slices.DeleteFunc(line, m.owns)
		default:
			return nil, explain(errs[i], "READ on "+l.path(m.First))
		}
	}
	list := make([]Member, len(present))
	for i, m := range present {
		turn := ruleOf(m.First, m.Nodes).Turn(line, m.First)
		m.Holding = turn.MayGo()
		m.Path, m.Kind, m.Permits = l.path(m.First), l.kindOf(m.First.Kind), 1
		if m.Kind == observe.Permits {
			m.Permits = m.Nodes
		}
		list[i] = m.Member
	}
	return list, nil
}

// describe reads what only the node itself tells.
func (l *Line) describe(ctx context.Context, m *standing) error {
	data, stat, err := l.client.Get(ctx, l.path(m.First))
	if err == nil {
		m.Host, m.Pid = identify(data)
		m.Data, m.Since, m.Session, m.Token = data, time.UnixMilli(stat.Ctime), stat.EphemeralOwner, stat.Czxid
	}
	return err
}

// owns reports whether n is one of the member's nodes.
func (m standing) owns(n znode.Node) bool {
	return m.First.Seq <= n.Seq && n.Seq < m.First.Seq+int64(m.Nodes)
}

// group puts nodes that were made together into one member: they have one id and
// stand side by side. A node without an id is a member by itself.
func group(line []znode.Node) []standing {
	var members []standing
	for i, n := range line {
		if i > 0 && n.ID != "" && n.ID == line[i-1].ID {
			members[len(members)-1].Nodes++
			continue
		}
		members = append(members, standing{First: n, Nodes: 1})
	}
	return members
}
