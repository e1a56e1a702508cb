package queue

import (
	"context"
	"errors"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// NoWait is a context that has ended: with it a release begins, and does not wait for the answer.
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// AcquireAsync waits on behalf of callers that may come and leave, and hands the result to deliver.
// giveUp ends the wait, because of the error of a caller that has left; a grant that comes
// nevertheless, or an error, is still delivered.
func (q *Queue) AcquireAsync(r Request, deliver func(*Grant, error)) (giveUp func(error)) {
	parent, giveUp := context.WithCancelCause(context.Background())
	ctx := asyncContext{parent}
	go func() {
		g, err := q.Acquire(zkclient.Uninterruptible(ctx), r, true)
		if g != nil {
			g.async, g.giveUp = ctx, giveUp
		}
		deliver(g, err)
	}()
	return giveUp
}

// asyncContext ends with the error of a caller.
type asyncContext struct{ context.Context }

func (c asyncContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// GiveUp notes that a caller has left because of err, before it had a hold on the grant.
func (g *Grant) GiveUp(err error) {
	if g.giveUp != nil {
		g.giveUp(err)
	}
}

// CanceledError is the error of a caller that stops waiting for an AcquireAsync because its ctx has
// ended.
func (q *Queue) CanceledError(ctx context.Context) error {
	return q.client.Unreached(ctx, zkclient.Ended(ctx))
}
