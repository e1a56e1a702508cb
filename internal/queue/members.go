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

// Member is a holder or a waiter, as seen from outside. It has the fields of zklocks.Member, which
// documents them.
type Member struct {
	Path             string
	Kind             observe.Kind
	Permits          int
	Holding          bool
	ReleaseRequested bool
	Since            time.Time
	Session          int64
	Token            int64
	Data             []byte
	Host             string
	Pid              int
}

// standing is a member and its nodes.
type standing struct {
	Member
	First znode.Node // the first of its nodes
	Nodes int
}

// readers bounds how many nodes are read at a time.
const readers = 16

// Members lists the holders and the waiters, in order. permits returns how many nodes may hold at
// once, of those that exclude each other; nil: one.
func (q *Queue) Members(ctx context.Context, permits func(context.Context) (int, error)) ([]Member, error) {
	list, err := q.members(ctx, permits)
	return list, q.Wrap("queue of", err)
}

func (q *Queue) members(ctx context.Context, permits func(context.Context) (int, error)) ([]Member, error) {
	if q.err != nil {
		return nil, q.err
	}
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	most := 1
	if permits != nil {
		var err error
		if most, err = permits(ctx); err != nil {
			return nil, err
		}
	}
	line, _, err := q.list(ctx, zkclient.AnySession)
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
			data, stat, err := q.client.Get(ctx, q.path(members[i].First))
			if errs[i] = err; err == nil {
				members[i].read(data, stat)
			}
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
			// It has left since the listing. The members behind it are judged without it, or a free
			// lock would be shown beside waiters.
			line = slices.DeleteFunc(line, m.owns)
		default:
			return nil, Explain(errs[i], "READ on "+q.path(m.First))
		}
	}
	list := make([]Member, len(present))
	for i, m := range present {
		r := rule{names: q.cfg.Names, mode: q.cfg.Names.mode(m.First.Kind), allowed: most - m.Nodes, nodes: m.Nodes}
		b := r.blockers(line, m.First)
		m.Holding = b.clear()
		m.Path, m.Kind, m.Permits = q.path(m.First), q.observedKind(m.First.Kind), 1
		if m.Kind == observe.KindPermits {
			m.Permits = m.Nodes
		}
		list[i] = m.Member
	}
	return list, nil
}

// read takes what the node itself tells.
func (m *Member) read(data []byte, stat *zk.Stat) {
	m.ReleaseRequested = isReleaseRequest(data)
	m.Data = withoutRequest(data)
	m.Host, m.Pid = identify(m.Data)
	m.Since, m.Session, m.Token = time.UnixMilli(stat.Ctime), stat.EphemeralOwner, stat.Czxid
}

// owns reports whether n is one of the member's nodes.
func (m standing) owns(n znode.Node) bool {
	return m.First.Seq <= n.Seq && n.Seq < m.First.Seq+int64(m.Nodes)
}

// group puts nodes that were created together into one member: they have one id and numbers in a
// row. A node without an id is a member by itself.
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
