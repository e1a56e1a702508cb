package zklocks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
)

// Locker is a lock of any package: rwlock.RWMutex for writing and RWMutex.RLocker for reading,
// reentrant.Mutex, and semaphore.Semaphore.Locker. Lock waits until it is granted the lock or ctx
// is canceled; TryLock returns an error that matches [ErrBusy] instead of waiting. In both, ctx
// bounds the call and never the hold.
type Locker interface {
	Lock(ctx context.Context) (*Hold, error)
	TryLock(ctx context.Context) (*Hold, error)
}

// Do acquires a lock, calls work, and releases the lock when work returns or panics:
//
//	err := zklocks.Do(ctx, lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
//		return rewrite(ctx, hold.Token())
//	})
//
// The context of work is canceled when ctx is canceled and when the lock is lost. lock is a method
// such as Lock or TryLock; for a semaphore, a method of its Locker.
//
// A deadline of ctx cancels the work, too. To limit the wait alone, use [Within]:
//
//	err := zklocks.Do(ctx, zklocks.Within(2*time.Second, lock.Lock), work)
//
// If the lock was not granted, Do returns lock's error and does not call work. Otherwise it returns
// work's error. If the hold is lost at its release, the error matches [ErrLost], also if work
// returned nil: another process may have held the lock before work was over. If the release fails,
// the error has both the release's and work's error. If work itself has released hold, Do does not
// check for a loss.
//
// Do waits until a server has confirmed the release, so a program may exit right after it. If no
// server answers, Do waits at most until the lock is lost, see [Hold.Release]. If ctx is canceled,
// Do waits at most a second or a quarter of the session timeout, whichever is shorter. If there is
// no answer by then, the error says so and matches ctx's error, also if work returned nil: the
// deletion continues in the background, but if the process exits first, the lock may remain held
// until the session expires. If ctx is canceled during the wait for the lock, Do waits in the same
// way until the node is deleted. In an outage that has lasted for so long already, it does not
// wait.
func Do(ctx context.Context, lock func(context.Context) (*Hold, error), work func(ctx context.Context, hold *Hold) error) (err error) {
	if lock == nil || work == nil {
		panic("zklocks: a function is nil")
	}
	hold.NeedContext(ctx)
	h, err := lock(ctx)
	switch {
	case err != nil:
		return left(ctx, err)
	case h == nil:
		panic("zklocks: neither a hold nor an error")
	case errors.Is(h.Err(), ErrReleased): // the hold is from an earlier call
		return h.Err()
	}
	defer func() {
		released := errNoHold
		if own := h.hold(); own != nil {
			released = release(ctx, own)
			runtime.KeepAlive(h)
		}
		switch {
		case released == nil, errors.Is(released, ErrReleased):
		case err == nil:
			err = released
		case !errors.Is(err, ErrLost) || !errors.Is(released, ErrLost):
			err = hold.And(err, released)
		}
	}()
	return work(h.Context(ctx), h)
}

// Within limits the wait for a lock, but not the work under it: it returns a function that calls
// lock and waits at most d. lock is a method such as Lock, or a function that calls it. ctx bounds
// the wait, too.
//
// If d passes first, the function returns lock's error, which matches context.DeadlineExceeded and
// names d. It returns when a server has confirmed that the caller has left the queue, which takes
// as long as one request. If the server has stopped answering, the function returns when it has
// been silent for a quarter of the session timeout, at most a second, so at most that long after d.
// The error then says that the node may remain. d has no effect on the hold and its contexts. If d
// is zero or negative, the function fails without sending a request: to acquire the lock without
// waiting, call TryLock.
func Within(d time.Duration, lock func(context.Context) (*Hold, error)) func(context.Context) (*Hold, error) {
	if lock == nil {
		panic("zklocks: a function is nil")
	}
	return func(ctx context.Context) (*Hold, error) {
		hold.NeedContext(ctx)
		ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("not granted within %v", d))
		defer cancel()
		h, err := lock(ctx)
		return h, left(ctx, err)
	}
}

// release releases a hold when the work under it has returned. It waits for the answer until ctx is
// canceled, and a moment longer: a program often exits because ctx was canceled, and then the
// background deletion stops. Without an answer the error matches ctx's error.
func release(ctx context.Context, h *queue.Hold) error {
	if ctx.Done() == nil {
		return h.Release(ctx)
	}
	limit, stop := after(ctx, h.Timeout(), 0)
	defer stop()
	if ctx.Err() != nil {
		limit = queue.Exiting(limit)
	}
	return h.Release(limit)
}

// left waits, like release, until a call that has returned err instead of a hold has left the
// queue. If no server has answered lately, it waits less.
func left(ctx context.Context, err error) error {
	var leaving *queue.Leaving
	if !errors.As(err, &leaving) || ctx.Err() == nil {
		return err
	}
	limit, stop := after(ctx, leaving.Timeout, leaving.Silence)
	defer stop()
	select {
	case <-leaving.Removed:
		return err
	case <-limit.Done():
		return fmt.Errorf("%w; and leaving the queue: %w", err, context.Cause(limit))
	}
}

// after returns a context that is canceled a moment after ctx, with ctx's error: after a quarter of
// the session timeout, or after a second if that is shorter, less waited, a time without an answer
// that has passed already.
func after(ctx context.Context, timeout, waited time.Duration) (limit context.Context, stop func()) {
	moment := min(timeout/4, time.Second)
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		time.AfterFunc(moment-waited, func() {
			cancel(fmt.Errorf("no answer within %v: the node may stay until the session ends", moment))
		})
	})
	return &ending{inner, ctx}, func() { forget(); cancel(nil) }
}

// ending is a context that is canceled later than the context of, with its error.
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
