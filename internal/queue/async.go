package queue

import (
	"context"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// NoWait is a context that has ended: with it a release begins, and does not wait for the answer.
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// AcquireAsync waits on behalf of callers that may come and leave, and passes the result to deliver.
// giveUp ends the wait; a grant that comes nevertheless, or an error, is still delivered.
func (q *Queue) AcquireAsync(r Request, deliver func(*Grant, error)) (giveUp func()) {
	ctx, giveUp := context.WithCancel(context.Background())
	go func() { deliver(q.Acquire(zkclient.Uninterruptible(ctx), r, true)) }()
	return giveUp
}

// CanceledError is the error of a caller that stops waiting for an AcquireAsync because its ctx has
// ended.
func (q *Queue) CanceledError(ctx context.Context) error {
	return q.client.Unreached(ctx, zkclient.Ended(ctx))
}
