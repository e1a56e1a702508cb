package rwlock

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/znode"
)

// Queue lists who holds the lock and who waits for it, in the order of the queue.
// It is a look at what one server knows, for people and dashboards: by the time
// it is read it may be over. The errors are those of Lock.
func (m *RWMutex) Queue(ctx context.Context) ([]zklocks.Member, error) {
	if m.err != nil {
		return nil, m.wrap("queue of", m.err)
	}
	members, err := m.line.Members(ctx, func(first znode.Node, _ int) queue.Rule {
		if isWrite(first) {
			return writeRule
		}
		return readRule
	})
	if err != nil {
		return nil, m.wrap("queue of", err)
	}
	list := make([]zklocks.Member, len(members))
	for i, member := range members {
		list[i] = zklocks.Member(member)
	}
	return list, nil
}
