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

// Member is a holder or a waiter. It has the fields of zklocks.Member, which documents them.
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
	first znode.Node // the first of its nodes
	nodes int
	err   error // of the read of the first node
}

// Members lists the holders and the waiters, in order. permits returns how many nodes that exclude
// each other may hold at once; nil: one.
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
	slots := make(chan struct{}, 16) // how many nodes are read concurrently
	var reads sync.WaitGroup
	for i := range members {
		slots <- struct{}{}
		reads.Go(func() {
			m := &members[i]
			var data []byte
			var stat *zk.Stat
			if data, stat, m.err = q.client.Get(ctx, q.path(m.first)); m.err == nil {
				m.Member = q.member(m.first, m.nodes, data, stat)
			}
			<-slots
		})
	}
	reads.Wait()
	for _, m := range members {
		if m.err == zk.ErrNoNode {
			// The member has left since the listing. Its nodes are removed from the line, or all
			// members behind it would be shown as waiters.
			line = slices.DeleteFunc(line, m.owns)
		} else if m.err != nil {
			return nil, Explain(m.err, "READ on "+q.path(m.first))
		}
	}
	list := make([]Member, 0, len(members))
	for _, m := range members {
		if m.err == nil {
			b := q.rule(Request{Kind: m.first.Kind, Nodes: m.nodes}, Limit{AllowedAhead: most - m.nodes}).blockers(line, m.first)
			m.Holding = b.clear()
			list = append(list, m.Member)
		}
	}
	return list, nil
}

// member describes a member by the first of its nodes, and the data of this node.
func (q *Queue) member(n znode.Node, nodes int, data []byte, stat *zk.Stat) Member {
	lock, own := q.info(Request{Kind: n.Kind, Nodes: nodes}), withoutRequest(data)
	m := Member{
		Path: q.path(n), Kind: lock.Kind, Permits: lock.Permits, ReleaseRequested: isReleaseRequest(data), Data: own,
		Since: time.UnixMilli(stat.Ctime), Session: stat.EphemeralOwner, Token: stat.Czxid,
	}
	m.Host, m.Pid = identify(own)
	return m
}

// owns reports whether n is one of the member's nodes.
func (m standing) owns(n znode.Node) bool {
	return m.first.Seq <= n.Seq && n.Seq < m.first.Seq+int64(m.nodes)
}

// group makes one member of nodes that were created together: they are consecutive and have the
// same id. A node without an id is a member by itself.
func group(line []znode.Node) []standing {
	var members []standing
	for i, n := range line {
		if i > 0 && n.ID != "" && n.ID == line[i-1].ID {
			members[len(members)-1].nodes++
			continue
		}
		members = append(members, standing{first: n, nodes: 1})
	}
	return members
}
