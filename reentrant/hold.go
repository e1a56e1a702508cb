package reentrant

import (
	"context"

	"github.com/zklocks/zklocks"
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
func (h *held) Release(ctx context.Context) error { return h.Hold.Release(ctx, h.leave) }

func (h *held) leave(ctx context.Context) error {
	if !h.mutex().unhold(h.owner) {
		return nil
	}
	return h.Grant.Release(ctx)
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
