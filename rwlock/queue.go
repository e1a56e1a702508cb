package rwlock

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// Queue lists the holders of the lock and the waiters, in the order of the queue. The list is what
// one server knows, is meant for people and dashboards, and may be out of date when it is read. The
// errors are those of Lock.
func (m *RWMutex) Queue(ctx context.Context) ([]zklocks.Member, error) {
	if m.err != nil {
		return nil, m.wrap("queue of", m.err)
	}
	members, err := m.queue.Members(ctx, func(int) int { return 0 })
	if err != nil {
		return nil, m.wrap("queue of", err)
	}
	return slot.Members(members, func(m queue.Member) zklocks.Member { return zklocks.Member(m) }), nil
}
