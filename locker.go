package zklocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/slot"
)

// Locker is a lock of any recipe: rwlock.RWMutex for writing and RWMutex.RLocker for reading,
// reentrant.Mutex, semaphore.Semaphore.Locker. Lock waits, in the order of arrival, as long as ctx
// lives; TryLock returns an error that matches [ErrBusy] instead. In both ctx bounds the call,
// never the hold.
type Locker interface {
	Lock(ctx context.Context) (*Hold, error)
	TryLock(ctx context.Context) (*Hold, error)
}

// Do takes a lock, works, and gives it back:
//
//	err := zklocks.Do(ctx, lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
//		return rewrite(ctx, hold.Token())
//	})
//
// lock is a method such as Lock or TryLock; of a semaphore, that of its Locker. The context that
// work gets ends with ctx or when the lock is lost, and the lock is released when work returns or
// panics.
//
// A deadline of ctx cancels the work, too. To limit the wait alone, use [Within]:
//
//	err := zklocks.Do(ctx, zklocks.Within(2*time.Second, lock.Lock), work)
//
// The error is that of lock, if the lock was not granted: then work was not called. Otherwise it is
// that of work. If the hold is known to be lost by the time it is released the error matches
// [ErrLost], also when work returned nil: another process may have held the lock before work was
// over. A release that fails is reported together with work's error. If work itself has released
// hold, it decides what that means.
//
// Do waits until the server has confirmed the release, so a program may exit right after it. If ctx
// has ended, Do waits at most a quarter of the session timeout, and at most a second. If there is
// no answer by then, the error says so and matches ctx's error, also when work returned nil: the
// deletion goes on in the background, but if the process exits first, the lock may stay held until
// the session expires. If ctx ends during the wait for the lock, Do waits in the same way until the
// caller has left the queue.
func Do(ctx context.Context, lock func(context.Context) (*Hold, error), work func(ctx context.Context, hold *Hold) error) (err error) {
	if lock == nil || work == nil {
		panic("zklocks: a function is nil")
	}
	hold.NeedContext(ctx)
	h, err := lock(ctx)
	switch {
	case err != nil:
		return slot.Left(ctx, err)
	case h == nil:
		panic("zklocks: neither a hold nor an error")
	case errors.Is(h.Err(), ErrReleased): // it is not of this call
		return h.Err()
	}
	defer func() {
		released := errNoGrant
		if g := h.grant(); g != nil {
			released = slot.End(ctx, g)
		}
		switch {
		case released == nil, errors.Is(released, ErrReleased):
		case err == nil:
			err = released
		case !errors.Is(err, ErrLost) || !errors.Is(released, ErrLost):
			err = fmt.Errorf("%w; and %w", err, released)
		}
	}()
	return work(h.Context(ctx), h)
}

// Within limits the wait for a lock, and not the work under it: it returns a function that calls
// lock and waits at most d. lock is a method such as Lock or Acquire, or a function that calls it.
//
// If d passes first, the error is that of lock, matches context.DeadlineExceeded and names d; the
// caller is no longer queued. ctx bounds the wait, too. The hold and the contexts made from it do
// not end when d passes. If d is zero or negative, the wait is over before it begins and nothing is
// requested: to take the lock without waiting, call TryLock.
func Within(d time.Duration, lock func(context.Context) (*Hold, error)) func(context.Context) (*Hold, error) {
	if lock == nil {
		panic("zklocks: a function is nil")
	}
	return func(ctx context.Context) (*Hold, error) {
		hold.NeedContext(ctx)
		ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("not granted within %v", d))
		defer cancel()
		return lock(ctx)
	}
}
