package rwlock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
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

func newHold(m *RWMutex, grant *queue.Grant, shared *sharedGrant, events *queue.HoldEvents) *zklocks.Hold {
	h := &held{mutex: m, shared: shared}
	h.Begin(grant)
	h.Granted(events)
	slot.Put(&h.public, h)
	return &h.public
}

// Release releases the lock.
func (h *held) Release(ctx context.Context) error {
	ctx, stop := h.Bound(ctx)
	defer stop()
	err := h.End()
	if err == hold.ErrReleased {
		return h.mutex.wrap("release", err)
	}
	if left := h.leave(ctx); err == nil {
		err = left
	}
	h.Released(err)
	return h.mutex.wrap("release", err)
}

// leave releases the grant, unless other holds of this process share it or take it over.
func (h *held) leave(ctx context.Context) error {
	if h.shared != nil {
		return h.shared.leave(ctx)
	}
	return h.mutex.writes.release(ctx, h.Grant)
}

func (h *held) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := h.Hold.Multi(ctx, ops...)
	return replies, h.mutex.wrap("multi", err)
}

func (h *held) Verify(ctx context.Context) error {
	return h.mutex.wrap("verify", h.Hold.Verify(ctx))
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
	grant, ok := slot.Get(h).(*held)
	switch {
	case slot.Get(h) == nil:
		return m.wrap("downgrade", zklocks.ErrLost)
	case !ok || grant.mutex != m:
		return m.wrap("downgrade", errForeign)
	}
	return m.wrap("downgrade", grant.downgrade(ctx))
}

func (h *held) downgrade(ctx context.Context) error {
	err := h.Err()
	if err == nil {
		err = zkclient.Ended(ctx) // checked first, because withdraw ends the handoff even if the downgrade then does nothing
	}
	if err == nil {
		err = h.mutex.writes.withdraw(&h.Hold)
	}
	if err == nil {
		err = h.Grant.Downgrade(ctx, h.mutex.kinds.write, h.mutex.kinds.read)
	}
	if end := h.Err(); err != nil && end != nil {
		err = end // ctx may be derived from the hold
	}
	return err
}
