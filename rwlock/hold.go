package rwlock

import (
	"context"
	"errors"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// held implements zklocks.Hold for an RWMutex.
type held struct {
	queue.Hold
	public zklocks.Hold
	mutex  *RWMutex
	shared *sharedGrant // the shared grant of a reader; nil for a writer
}

func newHold(m *RWMutex, grant *queue.Grant, shared *sharedGrant, call *queue.Call) *zklocks.Hold {
	h := &held{mutex: m, shared: shared}
	h.Begin(grant)
	h.Granted(call)
	return slot.Put(&h.public, h, call)
}

// Release releases the lock.
func (h *held) Release(ctx context.Context) error { return h.Hold.Release(ctx, h.leave) }

// leave releases the grant, unless other holds of this process share it or take it over.
func (h *held) leave(ctx context.Context) error {
	if h.shared != nil {
		return h.shared.leave(ctx)
	}
	if h.mutex.writes != nil {
		return h.mutex.writes.release(ctx, h.Grant)
	}
	return h.Grant.Release(ctx)
}

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
	err := errForeign
	switch grant := slot.Get(h).(type) {
	case nil:
		err = zklocks.ErrLost
	case *held:
		if grant.mutex == m {
			err = grant.downgrade(ctx)
		}
	case *queue.Joint:
		if one := grant.In(m.queue); one != nil {
			err = m.downgrade(ctx, one, grant.Err)
		}
	}
	return m.queue.Wrap("downgrade", err)
}

// downgrade downgrades a grant for a hold on it, which alive says is not over.
func (m *RWMutex) downgrade(ctx context.Context, grant *queue.Grant, alive func() error) error {
	err := alive()
	if err == nil {
		err = grant.Downgrade(ctx, m.kinds.write, m.kinds.read)
	}
	if end := alive(); err != nil && end != nil {
		err = end // ctx may be derived from the hold
	}
	return err
}

func (h *held) downgrade(ctx context.Context) error {
	if h.mutex.writes != nil && zkclient.Ended(ctx) == nil { // or withdraw would end the handoff for nothing
		if err := h.mutex.writes.withdraw(&h.Hold); err != nil {
			return err
		}
	}
	return h.mutex.downgrade(ctx, h.Grant, h.Err)
}
