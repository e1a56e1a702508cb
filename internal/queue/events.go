package queue

import (
	"time"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// NamedBy says which path the lock of this line was made with, for observers.
func (l *Line) NamedBy(path string) { l.lock = path }

// observed has the observers told of what the session does for this line.
func (l *Line) observed() {
	l.client = l.client.Traced(&zkclient.Trace{
		Retried: func(op string, cause error) {
			e := observe.Retried{Path: l.lock, Op: op, Cause: cause}
			for _, o := range l.cfg.Observers {
				if o.Retried != nil {
					o.Retried(e)
				}
			}
		},
		Orphan: func(n znode.Node, cause error) {
			e := observe.Orphan{Lock: l.event([]znode.Node{n}, 0), Cause: cause}
			for _, o := range l.cfg.Observers {
				if o.Orphan != nil {
					o.Orphan(e)
				}
			}
		},
	})
}

// event is what every event of these nodes begins with.
func (l *Line) event(nodes []znode.Node, token int64) observe.Lock {
	e := observe.Lock{Path: l.lock, Kind: l.kindOf(nodes[0].Kind), Permits: 1, Node: nodes[0].Name, Token: token}
	if e.Kind == observe.Permits {
		e.Permits = len(nodes)
	}
	return e
}

// kindOf is what a node of that kind asks for. Kazoo has one word for the locks
// that stand alone and for those beside readers.
func (l *Line) kindOf(k znode.Kind) observe.Kind {
	switch {
	case k == znode.Read, k == znode.CuratorRead, k == znode.KazooRead:
		return observe.Read
	case k == znode.Permit:
		return observe.Permits
	case len(l.kinds) > 1:
		return observe.Write
	}
	return observe.Mutex
}

// Ahead is how many of those ahead have to go before it is the member's turn, as
// far as it knows.
func (t *Turn) Ahead() int { return max(0, t.left-t.rule.Tolerate) }

// waiting is what the observers know of a member that has to wait.
type waiting struct {
	since time.Time // zero: it did not have to
	ahead int
}

// waits tells the observers how many have to go before it is the member's turn.
func (m *member) waits(ahead int) {
	observers := m.line.cfg.Observers
	if len(observers) == 0 || !m.waiting.since.IsZero() && m.waiting.ahead == ahead {
		return
	}
	first := m.waiting.since.IsZero()
	if m.waiting.ahead = ahead; first {
		m.waiting.since = time.Now()
	}
	lock := m.line.event(m.nodes, m.token)
	for _, o := range observers {
		switch {
		case first && o.Queued != nil:
			o.Queued(observe.Queued{Lock: lock, Ahead: ahead})
		case !first && o.Moved != nil:
			o.Moved(observe.Moved{Lock: lock, Ahead: ahead})
		}
	}
}

// left tells them that nodes that had to wait are gone, and nobody got the lock.
func (l *Line) left(nodes []znode.Node, token int64, w waiting, cause error) {
	if w.since.IsZero() {
		return
	}
	e := observe.Left{Lock: l.event(nodes, token), Waited: time.Since(w.since), Cause: cause}
	for _, o := range l.cfg.Observers {
		if o.Left != nil {
			o.Left(e)
		}
	}
}
