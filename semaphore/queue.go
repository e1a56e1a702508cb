package semaphore

import (
	"context"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/znode"
)

// Member is somebody who holds permits or waits for some.
type Member struct {
	Name    string    // of its first node in path/queue
	Permits int       // how many it asked for
	Holding bool      // and not waiting, by the number of permits of now
	Since   time.Time // when it queued, by the server's clock
	Session int64     // the session that the nodes belong to
	Token   int64     // the fencing token that goes with the nodes
	Data    []byte    // what the node contains, see WithData
	Host    string    // of the process that made it, if the data tell it; else empty
	Pid     int       // and its number; else 0
}

// Queue lists who holds permits and who waits for some, in the order of the
// queue. It is a look at what one server knows, for people and dashboards: by the
// time it is read it may be over. The errors are those of Acquire.
//
// A holder's node looks like a waiter's: Holding says that the present number of
// permits reaches as far as that node. After a Resize to fewer, a member that was
// granted by the larger number still holds, and is shown as not Holding until
// enough of those ahead of it have released.
func (s *Semaphore) Queue(ctx context.Context) ([]Member, error) {
	if s.err != nil {
		return nil, s.wrap("queue of", s.err)
	}
	permits, err := s.count.peek(ctx)
	if err != nil {
		return nil, s.wrap("queue of", err)
	}
	members, err := s.line.Members(ctx, func(_ znode.Node, n int) queue.Rule { return rule(n, permits) })
	if err != nil {
		return nil, s.wrap("queue of", err)
	}
	list := make([]Member, len(members))
	for i, q := range members {
		list[i] = Member{
			Name: q.First.Name, Permits: q.Nodes, Holding: q.Holding,
			Since: q.Since, Session: q.Session, Token: q.Token, Data: q.Data,
			Host: q.Host, Pid: q.Pid,
		}
	}
	return list, nil
}
