package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// NoWait is a context that has ended: with it a release begins, and does not wait for the answer.
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// An Async is an Acquire on behalf of callers that may come and leave.
type Async struct {
	GiveUp func() // ends the wait; a grant that comes nevertheless, or an error, is still delivered

	left   chan error // yields when the queue has been left
	client *zkclient.Client
	began  time.Time
	queued atomic.Pointer[waiter] // nil until its nodes are created
}

// AcquireAsync begins an Async, which passes its result to deliver.
func (q *Queue) AcquireAsync(r Request, deliver func(*Grant, error)) *Async {
	ctx, giveUp := context.WithCancel(context.Background())
	a := &Async{GiveUp: giveUp, left: make(chan error, 1), client: q.client, began: time.Now()}
	r.async = a
	go func() {
		grant, err := q.Acquire(zkclient.Uninterruptible(ctx), r, true)
		deliver(grant, err)
		if leaving := (*Leaving)(nil); errors.As(err, &leaving) {
			err = <-leaving.Removed
		}
		a.left <- err
		close(a.left)
	}()
	return a
}

// Canceled is the error of a caller that stops waiting for it because its ctx has ended.
func (a *Async) Canceled(ctx context.Context) error {
	if w := a.queued.Load(); w != nil && w.ahead.Load() > 0 {
		return waiters{w}.canceled(ctx, zkclient.Ended(ctx))
	}
	return a.client.Unreached(ctx, zkclient.Ended(ctx), a.began)
}

// Leaving adds to the error of the caller that has called GiveUp that its nodes are being deleted.
func (a *Async) Leaving(err error) error { return &Leaving{err, a.left, a.client.Timeout()} }
