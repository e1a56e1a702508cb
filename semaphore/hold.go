package semaphore

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
)

// held is what a zklocks.Hold on a Semaphore is: the permits of one Acquire.
type held struct {
	*queue.Place
	public    zklocks.Hold
	semaphore *Semaphore
	call      *queue.Call
}

// Release gives all the permits of the hold back.
func (h *held) Release(ctx context.Context) error {
	err := h.Place.Unlock(ctx)
	h.call.Released(err)
	return h.semaphore.wrap("release", err)
}

func (h *held) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := h.Place.Multi(ctx, ops...)
	return replies, h.semaphore.wrap("multi", err)
}

func (h *held) Verify(ctx context.Context) error {
	return h.semaphore.wrap("verify", h.Place.Verify(ctx))
}
