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

// Downgrade turns a hold for writing into one for reading, in place and in one transaction: no
// writer is granted in between, and no queued writer is overtaken. The hold keeps its token; guards
// taken before fail from now on. ctx bounds the wait for the answer; the downgrade itself runs to
// its end. A downgrade that fails leaves the hold for writing, unless it is lost. After ctx's error
// the downgrade continues, and a second call is refused until it has ended.
//
// The error matches [zklocks.ErrLost] or [zklocks.ErrReleased] when the hold has ended, and says so
// when it is for reading already or not of this lock; zk.ErrNoAuth when a right is missing: WRITE
// on the lock node, CREATE and DELETE on its directory.
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
	case m.writes != nil && zkclient.Ended(ctx) == nil: // or withdraw would end the handoff for nothing
		if err := m.writes.withdraw(h); err != nil {
			return err
		}
	}
	return h.Downgrade(ctx, m.queue, m.kinds.write, m.kinds.read)
}
