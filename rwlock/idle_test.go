package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/rwlock"
)

const maxIdle = 20 * time.Second

// keeper is a client that keeps its lock, for writing or for reading.
type keeper struct {
	*client
	lock func(context.Context) (*zklocks.Hold, error)
}

func (k keeper) take() *zklocks.Hold {
	k.Helper()
	return contract.Begin(k, k.Ctx, k.lock).Granted()
}

// idle uses the lock until it is idle, and returns its token.
func (k keeper) idle() (token int64) {
	k.Helper()
	for range 100 {
		h := k.take()
		token = h.Token()
		release(k.Stage, h)
		if len(test.Children(k, k.Witness.Client(), k.Dir)) == 1 {
			return token
		}
	}
	k.Fatal("the lock is not kept")
	return 0
}

// eachIdle runs a test with a lock that is kept for writing, and with a lock kept for reading.
func eachIdle(t *testing.T, test func(k keeper)) {
	for _, mode := range []string{"write", "read"} {
		t.Run(mode, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				makeDir(s)
				c := behind(s).with(rwlock.WithMaxIdle(maxIdle))
				k := keeper{c, c.Lock}
				if mode == "read" {
					k.lock = c.RLock
				}
				test(k)
				c.conn.Close() // or the lock might stay for a while
			})
		})
	}
}

// TryLock of a process with the option is not refused because another process keeps the lock, however
// far the servers are. That they do not answer does not make the lock busy.
func TestTryLockOfAnIdleLock(t *testing.T) {
	eachIdle(t, func(k keeper) {
		plain, other := direct(k.Stage), direct(k.Stage).with(rwlock.WithMaxIdle(maxIdle))
		for _, delay := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
			k.idle()
			k.Venue.Latency(delay)
			_, err := plain.TryLock(k.Ctx)
			k.Is(err, zklocks.ErrBusy)
			h, err := other.TryLock(k.Ctx)
			k.Must(err)
			_, err = k.TryRLock(k.Ctx)
			k.Is(err, zklocks.ErrBusy)
			release(k.Stage, h)
			k.Venue.Latency(0)
		}
		k.proxy.Refuse()
		k.proxy.Cut()
		ctx, cancel := context.WithTimeout(k.Ctx, 3*time.Second)
		defer cancel()
		_, err := k.with(rwlock.WithMaxIdle(maxIdle)).TryLock(ctx)
		k.Is(err, zklocks.ErrNoAnswer)
		k.Must(k.proxy.Accept())
		release(k.Stage, k.take()) // it has connected again
	})
}

// Another call of the same value may conflict with an idle lock. It does not wait for an event.
func TestAnIdleLockIsNotAheadOfItsOwnValue(t *testing.T) {
	eachIdle(t, func(k keeper) {
		several := zklocks.All(k.RWMutex, k.with().RLocker())
		for i, take := range []func(context.Context) (*zklocks.Hold, error){
			k.TryLock, k.TryRLock, zklocks.All(k.RWMutex).Lock, zklocks.All(k.RWMutex).TryLock, zklocks.All(k.RLocker()).TryLock, k.Lock, k.RLock,
		} {
			k.idle()
			h, err := take(k.Ctx)
			if err != nil {
				k.Fatalf("call %d: %v", i, err)
			}
			k.Must(h.Verify(k.Ctx))
			release(k.Stage, h)
		}
		_, err := several.TryLock(k.Ctx)
		if err == nil {
			k.Error("the lock is given twice")
		}
	})
}

// A program that may be about to exit leaves no lock.
func TestDoWithACanceledContextDoesNotKeepTheLock(t *testing.T) {
	eachIdle(t, func(k keeper) {
		k.idle()
		ctx, cancel := context.WithCancel(k.Ctx)
		k.Is(zklocks.Do(ctx, k.lock, func(context.Context, *zklocks.Hold) error { cancel(); return nil }), nil)
		k.EmptyNow()
		k.idle()
		k.conn.Close()
		k.EmptyNow()
	})
}

// With names of other libraries writers keep their lock. Readers do not: writers of these libraries
// send no announcement.
func TestIdleLocksWithOtherNames(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		for _, names := range []rwlock.Option{rwlock.WithCuratorNames(), rwlock.WithKazooNames()} {
			c := behind(s).with(names, rwlock.WithMaxIdle(maxIdle))
			for range 10 {
				release(s, c.read())
				s.EmptyNow()
			}
			keeper{c, c.Lock}.idle()
			release(s, direct(s).with(names).write())
			s.EmptyNow()
		}
	})
}
