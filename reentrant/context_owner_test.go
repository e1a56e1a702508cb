package reentrant_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/zktest"
)

// onContextOwner runs a test with a Mutex with WithContextOwner, and another process's Conn.
func onContextOwner(t *testing.T, f func(t *testing.T, mu *reentrant.Mutex, other *zklocks.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		f(t, reentrant.New(s.Host("a").Connect(t, 10*time.Second), "/owner", reentrant.WithContextOwner()), s.Host("b").Connect(t, 10*time.Second))
	})
}

func TestOnlyTheContextOwns(t *testing.T) {
	onContextOwner(t, func(t *testing.T, mu *reentrant.Mutex, other *zklocks.Conn) {
		take := func(name string, lock func(context.Context) (*zklocks.Hold, error), ctx context.Context, want error) *zklocks.Hold {
			t.Helper()
			hold, err := lock(ctx)
			if !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", name, err, want)
			}
			return hold
		}
		outer := take("the first", mu.Lock, t.Context(), nil)
		ctx := outer.Context(t.Context())
		take("the goroutine", mu.TryLock, t.Context(), zklocks.ErrBusy)
		take("the goroutine, of several locks", zklocks.All(mu).TryLock, t.Context(), zklocks.ErrBusy)
		inner := take("the context", mu.TryLock, ctx, nil)
		var deeper *zklocks.Hold
		elsewhere(func() { deeper = take("the context in another goroutine", mu.Lock, inner.Context(ctx), nil) })
		if _, err := zklocks.All(mu).Lock(ctx); err == nil || errors.Is(err, zklocks.ErrBusy) {
			t.Errorf("the context, of several locks: %v, want that the caller holds it", err)
		}
		if n := mu.HoldCount(); n != 0 {
			t.Errorf("the goroutine has %d holds", n)
		}
		there := reentrant.New(other, "/owner")
		for _, hold := range []*zklocks.Hold{outer, deeper, inner} {
			take("another process", there.TryLock, t.Context(), zklocks.ErrBusy)
			if err := hold.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		hold := take("another process at the end", there.TryLock, t.Context(), nil)
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The context of a hold on several locks owns, too.
func TestTheContextOfSeveralLocksOwns(t *testing.T) {
	onContextOwner(t, func(t *testing.T, mu *reentrant.Mutex, _ *zklocks.Conn) {
		err := zklocks.Do(t.Context(), zklocks.All(mu).Lock, func(ctx context.Context, _ *zklocks.Hold) error {
			if _, err := mu.TryLock(t.Context()); !errors.Is(err, zklocks.ErrBusy) {
				t.Errorf("the goroutine: %v", err)
			}
			return zklocks.Do(ctx, mu.TryLock, func(context.Context, *zklocks.Hold) error { return nil })
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// After a loss a call with the hold's context fails until the hold is released. The goroutine may
// queue at once with another context.
func TestALostHoldOfAContext(t *testing.T) {
	onContextOwner(t, func(t *testing.T, mu *reentrant.Mutex, other *zklocks.Conn) {
		lost, err := mu.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx := lost.Context(t.Context())
		queue, err := mu.Queue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Client().Delete(queue[0].Path, -1); err != nil {
			t.Fatal(err)
		}
		<-lost.Lost()
		if _, err := mu.TryLock(context.WithoutCancel(ctx)); !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("the context of the lost hold: %v", err)
		}
		if err := zklocks.Do(t.Context(), mu.Lock, func(context.Context, *zklocks.Hold) error { return nil }); err != nil {
			t.Errorf("the goroutine: %v", err)
		}
		if err := lost.Release(t.Context()); !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("release: %v", err)
		}
	})
}
