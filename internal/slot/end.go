package slot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
)

// End releases a hold when the work under it has returned. It waits for the answer as long as ctx
// lives, and a moment longer: a program often exits because ctx has ended, and then nothing goes on
// in the background. Without an answer the error matches ctx's error.
func End(ctx context.Context, h *queue.Hold) error {
	if ctx.Done() == nil {
		return h.Release(ctx)
	}
	limit, stop := after(ctx, h.Timeout())
	defer stop()
	return h.Release(limit)
}

// Left is End for a call that has returned err instead of a hold: it waits until the call has left
// the queue.
func Left(ctx context.Context, err error) error {
	var leaving *queue.Leaving
	if !errors.As(err, &leaving) || ctx.Err() == nil {
		return err
	}
	limit, stop := after(ctx, leaving.Timeout)
	defer stop()
	select {
	case <-leaving.Removed:
		return err
	case <-limit.Done():
		return fmt.Errorf("%w; and leaving the queue: %w", err, context.Cause(limit))
	}
}

// after returns a context that ends with ctx's error, a moment after ctx: a quarter of the session
// timeout, or a second if that is shorter.
func after(ctx context.Context, timeout time.Duration) (limit context.Context, stop func()) {
	moment := min(timeout/4, time.Second)
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		time.AfterFunc(moment, func() {
			cancel(fmt.Errorf("no answer within %v: the node may stay until the session ends", moment))
		})
	})
	return &ending{inner, ctx}, func() { forget(); cancel(nil) }
}

// ending is a context that ends later than another, with its error.
type ending struct {
	context.Context
	of context.Context
}

func (e *ending) Err() error {
	if err := e.Context.Err(); err == nil || e.of.Err() == nil {
		return err
	}
	return e.of.Err()
}
