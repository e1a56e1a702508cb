package rwlock

import (
	"context"

	"github.com/zklocks/zklocks"
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
	list := make([]zklocks.Member, len(members))
	for i, member := range members {
		list[i] = zklocks.Member(member)
	}
	return list, nil
}
