package semaphore

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/znode"
)

// Queue lists who holds permits and who waits for some, in the order of the
// queue. It is a look at what one server knows, for people and dashboards: by the
// time it is read it may be over. The errors are those of Acquire.
//
// A holder's node looks like a waiter's: Holding says that the present number of
// permits reaches as far as that node. After a Resize to fewer, a member that was
// granted by the larger number still holds, and is shown as not Holding until
// enough of those ahead of it have released.
func (s *Semaphore) Queue(ctx context.Context) ([]zklocks.Member, error) {
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
	list := make([]zklocks.Member, len(members))
	for i, member := range members {
		list[i] = zklocks.Member(member)
	}
	return list, nil
}
