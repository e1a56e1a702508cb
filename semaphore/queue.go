package semaphore

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// Queue lists the holders of permits and the waiters, in the order of the queue. The list is what
// one server knows, is meant for people and dashboards, and may be out of date when it is read. The
// errors are those of Acquire.
//
// A holder's node looks like a waiter's: Holding means that the node is among the first N permits,
// where N is the current number. After a Resize to fewer, a holder beyond the new number still
// holds, but is listed as not Holding until enough holders ahead of it have released.
func (s *Semaphore) Queue(ctx context.Context) ([]zklocks.Member, error) {
	if s.err != nil {
		return nil, s.wrap("queue of", s.err)
	}
	permits, err := s.count.peek(ctx)
	if err != nil {
		return nil, s.wrap("queue of", err)
	}
	members, err := s.queue.Members(ctx, func(n int) int { return permits - n })
	if err != nil {
		return nil, s.wrap("queue of", err)
	}
	return slot.Members(members, func(m queue.Member) zklocks.Member { return zklocks.Member(m) }), nil
}
