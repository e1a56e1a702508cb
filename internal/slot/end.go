package slot

import (
	"context"
	"fmt"
	"time"
)

// End releases a hold when the work under it has returned. It waits for the answer as long as ctx
// lives, and a moment longer: a program often exits because ctx has ended, and then nothing goes on
// in the background. Without an answer the error matches ctx's error.
func End(ctx context.Context, g Grant) error {
	if ctx.Done() == nil {
		return g.Release(ctx)
	}
	moment := min(g.Timeout()/4, time.Second)
	limit, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(moment, func() {
			cancel(fmt.Errorf("no answer within %v: the node may stay until the session ends", moment))
		})
	})
	defer stop()
	return g.Release(&ending{limit, ctx})
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
