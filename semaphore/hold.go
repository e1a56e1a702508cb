package semaphore

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
)

// held implements zklocks.Hold for a Semaphore: the permits of one Acquire.
type held struct {
	*queue.Grant
	public    zklocks.Hold
	semaphore *Semaphore
	events    *queue.HoldEvents
}

// Release releases all permits of the hold.
func (h *held) Release(ctx context.Context) error {
	err := h.Grant.Release(ctx)
	h.events.Released(err)
	return h.semaphore.wrap("release", err)
}

func (h *held) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := h.Grant.Multi(ctx, ops...)
	return replies, h.semaphore.wrap("multi", err)
}

func (h *held) Verify(ctx context.Context) error {
	return h.semaphore.wrap("verify", h.Grant.Verify(ctx))
}
