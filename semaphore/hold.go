package semaphore

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
)

// held implements zklocks.Hold for a Semaphore: the permits of one Acquire.
type held struct {
	*queue.Grant
	public zklocks.Hold
	call   *queue.Call
}

// Release releases all permits of the hold.
func (h *held) Release(ctx context.Context) error {
	err := h.Grant.Release(ctx)
	h.call.Released(err)
	return h.Wrap("release", err)
}
