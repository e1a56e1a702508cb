package zklocks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// Within: "If d passes first, the function returns lock's error, which matches
// context.DeadlineExceeded and names d, and the caller is no longer queued."
func TestWithinEndsTheWait(t *testing.T) {
	atDesk(t, func(d *desk) {
		mutex, permit := reentrant.New(d.conn, path), semaphore.New(d.conn, path+"/permits", 1).Locker(1)
		for name, c := range map[string]struct {
			holds func(context.Context) (*zklocks.Hold, error)
			lock  func(context.Context) (*zklocks.Hold, error)
			says  string
		}{
			"a writer":      {rwlock.New(d.other, path).Lock, d.lock.Lock, "rwlock: lock /do: context deadline exceeded: not granted within 2s"},
			"a reader":      {rwlock.New(d.other, path).Lock, d.lock.RLock, "rwlock: read lock /do: context deadline exceeded: not granted within 2s"},
			"a mutex":       {reentrant.New(d.other, path).Lock, mutex.Lock, "reentrant: lock /do: context deadline exceeded: not granted within 2s"},
			"a permit":      {semaphore.New(d.other, path+"/permits", 1).Locker(1).Lock, permit.Lock, "semaphore: acquire /do/permits: context deadline exceeded: not granted within 2s"},
			"several locks": {rwlock.New(d.other, path).Lock, zklocks.All(d.lock, permit).Lock, "not granted within 2s"},
		} {
			hold, err := c.holds(d.Context())
			if err != nil {
				d.Fatal(err)
			}
			began := time.Now()
			err = zklocks.Do(d.Context(), zklocks.Within(2*time.Second, c.lock), func(context.Context, *zklocks.Hold) error {
				d.Errorf("%s: work was called", name)
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.says) {
				d.Errorf("%s: error %v, want %q", name, err, c.says)
			}
			if took := time.Since(began).Round(time.Millisecond); took != 2*time.Second { // the answer to the deletion takes a moment
				d.Errorf("%s: it waited %v", name, took)
			}
			if err := hold.Release(d.Context()); err != nil {
				d.Error(err)
			}
		}
		if !d.free() {
			d.Error("a caller whose wait is over is queued")
		}
	})
}

// Within: "d has no effect on the hold and its contexts."
func TestWithinDoesNotEndTheWork(t *testing.T) {
	atDesk(t, func(d *desk) {
		err := zklocks.Do(d.Context(), zklocks.Within(time.Second, d.lock.Lock), func(ctx context.Context, hold *zklocks.Hold) error {
			time.Sleep(time.Minute) // virtual: much longer than the limit
			if ctx.Err() != nil || !hold.Held() {
				d.Errorf("context %v, hold %v", ctx.Err(), hold.Err())
			}
			if _, limited := ctx.Deadline(); limited {
				d.Error("the context of work has a deadline")
			}
			return nil
		})
		if err != nil {
			d.Error(err)
		}
	})
}

// The context that is given ends the wait, too, and is named when it was that one.
func TestWithinAContextThatEndsFirst(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := rwlock.New(d.other, path).Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		limited, cancel := context.WithTimeout(d.Context(), time.Second)
		defer cancel()
		canceled, cancel := context.WithCancel(d.Context())
		time.AfterFunc(time.Second, cancel)
		for ctx, want := range map[context.Context]error{limited: context.DeadlineExceeded, canceled: context.Canceled} {
			_, err := zklocks.Within(time.Minute, d.lock.Lock)(ctx)
			if !errors.Is(err, want) || strings.Contains(err.Error(), "not granted within") {
				d.Errorf("error %v, want %v and no limit of Within", err, want)
			}
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// Within: "If d is zero or negative, the function fails without sending a request."
func TestWithinNoTime(t *testing.T) {
	atDesk(t, func(d *desk) {
		for _, none := range []time.Duration{0, -time.Second} {
			began := time.Now()
			_, err := zklocks.Within(none, d.lock.Lock)(d.Context())
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
				d.Errorf("%v: error %v after %v", none, err, time.Since(began))
			}
		}
	})
}

func TestWithinWithoutAFunction(t *testing.T) {
	defer func() {
		if p := recover(); p != "zklocks: a function is nil" {
			t.Errorf("panic %v", p)
		}
	}()
	zklocks.Within(time.Second, nil)
	t.Error("no panic")
}
