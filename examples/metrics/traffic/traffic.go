// Package traffic works under locks, as a service might. It has no code for metrics: its connection
// has the observers.
package traffic

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// Run reads and rewrites an index, converts with three permits, and walks a tree, each on several
// goroutines, until ctx is canceled.
func Run(ctx context.Context, conn *zklocks.Conn, root string) {
	index := rwlock.New(conn, root+"/index")
	jobs := semaphore.New(conn, root+"/jobs", 3)
	tree := reentrant.New(conn, root+"/tree")

	var all sync.WaitGroup
	work := func(goroutines int, turn func(context.Context) error) {
		for range goroutines {
			all.Go(func() {
				for ctx.Err() == nil {
					// A worker that is not granted the lock in time does something else for a
					// while.
					one, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
					if turn(one) != nil {
						pause(ctx, 50*time.Millisecond)
					}
					cancel()
				}
			})
		}
	}
	work(6, func(ctx context.Context) error { return hold(ctx, index.RLock, 10*time.Millisecond) })
	work(2, func(ctx context.Context) error { return hold(ctx, index.Lock, 20*time.Millisecond) })
	work(10, func(ctx context.Context) error { return hold(ctx, jobs.Locker(1).Lock, 60*time.Millisecond) })
	work(2, func(ctx context.Context) error { return walk(ctx, tree, 3) })
	all.Wait()
}

// hold works under a lock.
func hold(ctx context.Context, lock func(context.Context) (*zklocks.Hold, error), work time.Duration) error {
	return zklocks.Do(ctx, lock, func(ctx context.Context, _ *zklocks.Hold) error {
		pause(ctx, work)
		return nil
	})
}

func walk(ctx context.Context, tree *reentrant.Mutex, depth int) error {
	return zklocks.Do(ctx, tree.Lock, func(ctx context.Context, _ *zklocks.Hold) error {
		pause(ctx, 5*time.Millisecond)
		if depth > 1 {
			_ = walk(ctx, tree, depth-1) // its error does not matter here
		}
		return nil
	})
}

// pause works for about d.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
