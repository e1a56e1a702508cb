// Package traffic is some work under locks, as a service might do it.
package traffic

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// Run reads and rewrites an index, converts with three permits, and walks a tree,
// each on several goroutines, until ctx ends.
func Run(ctx context.Context, conn *zk.Conn, root string, observers ...observe.Observer) {
	var (
		rw  []rwlock.Option
		sem []semaphore.Option
		re  []reentrant.Option
	)
	for _, o := range observers {
		rw = append(rw, rwlock.WithObserver(o))
		sem = append(sem, semaphore.WithObserver(o))
		re = append(re, reentrant.WithObserver(o))
	}
	index := rwlock.New(conn, root+"/index", rw...)
	jobs := semaphore.New(conn, root+"/jobs", 3, sem...)
	tree := reentrant.New(conn, root+"/tree", re...)

	var all sync.WaitGroup
	work := func(goroutines int, turn func(context.Context) error) {
		for range goroutines {
			all.Go(func() {
				for ctx.Err() == nil {
					// Who gets no lock in time does something else for a while.
					one, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
					if turn(one) != nil {
						pause(ctx, 50*time.Millisecond)
					}
					cancel()
				}
			})
		}
	}
	work(6, func(ctx context.Context) error {
		h, err := index.RLock(ctx)
		if err != nil {
			return err
		}
		pause(h.Context(ctx), 10*time.Millisecond)
		return h.Unlock(ctx)
	})
	work(2, func(ctx context.Context) error {
		h, err := index.Lock(ctx)
		if err != nil {
			return err
		}
		pause(h.Context(ctx), 20*time.Millisecond)
		return h.Unlock(ctx)
	})
	work(10, func(ctx context.Context) error {
		h, err := jobs.Acquire(ctx, 1)
		if err != nil {
			return err
		}
		pause(h.Context(ctx), 60*time.Millisecond)
		return h.Release(ctx)
	})
	work(2, func(ctx context.Context) error { return walk(ctx, tree, 3) })
	all.Wait()
}

func walk(ctx context.Context, tree *reentrant.Mutex, depth int) error {
	h, err := tree.Lock(ctx)
	if err != nil {
		return err
	}
	pause(h.Context(ctx), 5*time.Millisecond)
	if depth > 1 {
		_ = walk(ctx, tree, depth-1) // its own error is its own
	}
	return h.Unlock(ctx)
}

// pause is work of about that length.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
