package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// lock acquires a lock of ours.
type lock func(ctx context.Context, read bool) (*zklocks.Hold, error)

func openOurs(ctx context.Context, j job) (*session, error) {
	return open(ctx, j, func(conn *zklocks.Conn) lock {
		switch j.Mode {
		case several:
			all := make([]zklocks.Locker, j.Among)
			for i := range all {
				all[i] = rwlock.New(conn, lockOf(j.Path, i), rwlock.WithMaxIdle(j.maxIdle()))
			}
			if j.AtOnce == 1 {
				return func(ctx context.Context, _ bool) (*zklocks.Hold, error) { return all[rand.IntN(j.Among)].Lock(ctx) }
			}
			return func(ctx context.Context, _ bool) (*zklocks.Hold, error) {
				var some []zklocks.Locker
				for _, i := range j.draw() {
					some = append(some, all[i])
				}
				return zklocks.All(some...).Lock(ctx)
			}
		case fresh:
			return func(ctx context.Context, _ bool) (*zklocks.Hold, error) {
				return rwlock.New(conn, j.newPath()).Lock(ctx)
			}
		case permits:
			sem := semaphore.New(conn, j.Path, j.Permits)
			return func(ctx context.Context, _ bool) (*zklocks.Hold, error) { return sem.Acquire(ctx, 1) }
		}
		rw := rwlock.New(conn, j.Path, rwlock.WithHandoff(j.Handoff), rwlock.WithMaxIdle(j.maxIdle()))
		return func(ctx context.Context, read bool) (*zklocks.Hold, error) {
			if read {
				return rw.RLock(ctx)
			}
			return rw.Lock(ctx)
		}
	})
}

func openReentrant(ctx context.Context, j job) (*session, error) {
	return open(ctx, j, func(conn *zklocks.Conn) lock {
		m := reentrant.New(conn, j.Path, reentrant.WithMaxIdle(j.maxIdle()))
		return func(ctx context.Context, _ bool) (*zklocks.Hold, error) { return m.Lock(ctx) }
	})
}

// keeping has a library keep idle locks for a second.
func keeping(open func(context.Context, job) (*session, error)) func(context.Context, job) (*session, error) {
	return func(ctx context.Context, j job) (*session, error) {
		j.MaxIdle = 1000
		return open(ctx, j)
	}
}

func (j job) maxIdle() time.Duration { return time.Duration(j.MaxIdle) * time.Millisecond }

// open opens a session whose workers share a lock value, as in a program.
func open(ctx context.Context, j job, on func(*zklocks.Conn) lock) (*session, error) {
	conn, err := zklocks.Connect(ctx, []string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	take := on(conn)
	worker := func() acquire {
		// A worker has one closure to release its holds. A closure for each cycle would add an
		// allocation of the harness to the allocations of the library.
		var held *zklocks.Hold
		release := func() error { return held.Release(context.Background()) }
		return func(ctx context.Context, read bool) (func() error, error) {
			var err error
			held, err = take(ctx, read)
			return release, err
		}
	}
	return &session{worker, func() { _ = conn.Close() }}, nil
}

// openZkLock opens a session on which each worker has its own zk.Lock, because a zk.Lock cannot be
// shared.
func openZkLock(_ context.Context, j job) (*session, error) {
	conn, events, err := zk.Connect([]string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	worker := func() acquire {
		locks := []*zk.Lock{zk.NewLock(conn, j.Path, zk.WorldACL(zk.PermAll))}
		if j.Mode == several {
			locks = nil
			for i := range j.Among {
				locks = append(locks, zk.NewLock(conn, lockOf(j.Path, i), zk.WorldACL(zk.PermAll)))
			}
		}
		return func(context.Context, bool) (func() error, error) {
			drawn := []int{0}
			if j.Mode == fresh {
				locks[0] = zk.NewLock(conn, j.newPath(), zk.WorldACL(zk.PermAll))
			}
			if j.Mode == several {
				drawn = j.draw()
				slices.Sort(drawn)
			}
			var err error
			for _, i := range drawn {
				err = errors.Join(err, locks[i].Lock())
			}
			release := func() (err error) {
				for _, i := range slices.Backward(drawn) {
					err = errors.Join(err, locks[i].Unlock())
				}
				return err
			}
			return release, err
		}
	}
	return &session{worker, conn.Close}, nil
}

// lockOf returns the path of lock i of several.
func lockOf(path string, i int) string { return fmt.Sprintf("%s/%d", path, i) }

var paths atomic.Int64

// newPath returns a path that was never used before.
func (j job) newPath() string { return lockOf(j.Path, int(paths.Add(1))) }

// draw draws the locks of a cycle.
func (j job) draw() []int { return rand.Perm(j.Among)[:j.AtOnce] }
