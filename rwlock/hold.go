package rwlock

import (
	"context"
	"errors"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/zkclient"
)

var errForeign = errors.New("the hold is not one of this lock")

// Downgrade turns a hold for writing into a hold for reading, in one transaction: no writer is
// granted the lock in between, and no queued writer is overtaken. The hold keeps its token; earlier
// guards fail from now on. ctx bounds only the wait for the answer. If ctx is canceled, Downgrade
// returns its error and the downgrade continues; a second call is refused until it has ended. If
// the downgrade fails, the hold remains for writing, unless it is lost.
//
// The error matches [zklocks.ErrLost] or [zklocks.ErrReleased] if the hold has ended, and
// zk.ErrNoAuth if a right is missing: WRITE on the lock's node, CREATE and DELETE on its directory.
// It is also an error if the hold is already for reading, or is not a hold of this lock.
func (m *RWMutex) Downgrade(ctx context.Context, h *zklocks.Hold) error {
	if h == nil {
		h = new(zklocks.Hold) // a zero Hold is lost, too
	}
	m = m.made()
	return m.queue.Wrap("downgrade", m.downgrade(ctx, slot.Get(h)))
}

func (m *RWMutex) downgrade(ctx context.Context, h *queue.Hold) error {
	switch {
	case h == nil:
		return zklocks.ErrLost
	case !h.Has(m.queue):
		return errForeign
	case zkclient.Ended(ctx) == nil: // if ctx is canceled, Withdraw would end the series for nothing
		if err := m.writes.Withdraw(h); err != nil {
			return err
		}
	}
	return h.Downgrade(ctx, m.queue, m.kinds.write, m.kinds.read)
}
