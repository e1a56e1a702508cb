package reentrant

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
)

// held is what a zklocks.Hold on a Mutex is.
type held struct {
	queue.Hold
	public zklocks.Hold
	owner  *owner // the goroutine that took it
}

func (h *held) mutex() *Mutex { return h.owner.of.mutex }

// Release ends this hold. The last one gives the lock back.
func (h *held) Release(ctx context.Context) error {
	ctx, stop := h.Bound(ctx)
	defer stop()
	err := h.End()
	if err == hold.ErrReleased {
		return h.mutex().wrap("release", err)
	}
	if h.mutex().unhold(h.owner) {
		if last := h.Grant.Release(ctx); err == nil {
			err = last
		}
	}
	h.Released(err)
	return h.mutex().wrap("release", err)
}

// ownerKey finds the hold that a context carries for a lock.
type ownerKey struct{ m *Mutex }

// Context carries the ownership: a caller of Lock with it enters again.
func (h *held) Context(parent context.Context) context.Context {
	return &holdContext{h.Hold.Context(parent), h}
}

// holdContext is the context of a hold's life, with the hold in it.
type holdContext struct {
	context.Context
	hold *held
}

func (c *holdContext) Value(key any) any {
	if key == (ownerKey{c.hold.mutex()}) {
		return c.hold
	}
	return c.Context.Value(key)
}

func (h *held) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := h.Hold.Multi(ctx, ops...)
	return replies, h.mutex().wrap("multi", err)
}

func (h *held) Verify(ctx context.Context) error {
	return h.mutex().wrap("verify", h.Hold.Verify(ctx))
}
