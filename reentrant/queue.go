package reentrant

import (
	"context"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/znode"
)

// Member is somebody who holds the lock or waits for it.
type Member struct {
	Name    string    // of its node in the lock's directory
	Holding bool      // and not waiting
	Since   time.Time // when it queued, by the server's clock
	Session int64     // the session that the node belongs to
	Token   int64     // the fencing token that goes with the node
	Data    []byte    // what the node contains, see WithData
	Host    string    // of the process that made it, if the data tell it; else empty
	Pid     int       // and its number; else 0
}

// Queue lists who holds the lock and who waits for it, in the order of the queue.
// It is a look at what one server knows, for people and dashboards: by the time
// it is read it may be over. The errors are those of Lock.
func (m *Mutex) Queue(ctx context.Context) ([]Member, error) {
	if m.err != nil {
		return nil, m.wrap("queue of", m.err)
	}
	members, err := m.line.Members(ctx, func(znode.Node, int) queue.Rule { return rule })
	if err != nil {
		return nil, m.wrap("queue of", err)
	}
	list := make([]Member, len(members))
	for i, q := range members {
		list[i] = Member{
			Name: q.First.Name, Holding: q.Holding,
			Since: q.Since, Session: q.Session, Token: q.Token, Data: q.Data,
			Host: q.Host, Pid: q.Pid,
		}
	}
	return list, nil
}
