package reentrant

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
)

// held implements zklocks.Hold for a Mutex.
type held struct {
	queue.Hold
	public zklocks.Hold
	owner  *owner // the goroutine that called Lock
}

func (h *held) mutex() *Mutex { return h.owner.of.mutex }

// Release ends this hold. The Release of the last hold releases the lock.
func (h *held) Release(ctx context.Context) error {
	bound := h.Bound(ctx)
	err := h.End()
	if err == hold.ErrReleased {
		return h.Wrap("release", err)
	}
	ctx, stop := bound.Context()
	defer stop()
	if h.mutex().unhold(h.owner) {
		if last := h.Grant.Release(ctx); err == nil {
			err = last
		}
	}
	h.Released(err)
	return h.Wrap("release", err)
}

// ownerKey is the context key of the hold of a Mutex.
type ownerKey struct{ m *Mutex }

// Context returns a context that also carries the ownership: a goroutine that calls Lock with it
// re-enters.
func (h *held) Context(parent context.Context) context.Context {
	return &holdContext{h.Hold.Context(parent), h}
}

// holdContext is the context of a hold, with the hold as a value.
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
