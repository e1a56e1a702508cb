package reentrant

import (
	"fmt"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/znode"
)

// Option changes a default of [New]. Every [zklocks.Option] is also an Option.
type Option interface{ reentrantOption }

type reentrantOption = slot.ReentrantOption

type option = slot.Reentrant[config]

type config struct {
	queue.Config
	kind      znode.Kind
	byContext bool
	maxIdle   time.Duration
}

// WithContextOwner makes the context the only owner. A call re-enters if its context comes from
// [zklocks.Hold.Context] of a hold that is not released. A call with any other context waits, even
// on the goroutine that has the lock. So pass the hold's context to all code that takes the lock
// again: otherwise that code waits for its own caller. By default the goroutine owns, too.
func WithContextOwner() Option { return option(func(cfg *config) { cfg.byContext = true }) }

// WithKazooNames gives the nodes the names that kazoo's Lock uses, so that Go and Python processes
// share one lock. All users of the path must use these names. The default is the names of Curator's
// InterProcessMutex and of zk.Lock.
//
// With these names the empty directory is not deleted: a kazoo lock creates it once, and fails
// forever after it is gone.
func WithKazooNames() Option {
	return option(func(cfg *config) { cfg.kind = znode.KazooLock })
}

// WithMaxIdle keeps the lock after its last release, for up to d, while no other client wants it.
// The next owner of this Mutex then acquires it without a request. A program that exits without
// [zklocks.Conn.Close] leaves the locks that it keeps held until its session expires. The default
// is 0: the last release deletes the node.
//
// It is for locks that one process uses again and again. When the process keeps the lock, when it
// releases it, what TryLock does and which holders share a token is as with
// [github.com/zklocks/zklocks/rwlock.WithMaxIdle] for writers: while other processes want the lock,
// the owners of this Mutex have one place in the queue.
func WithMaxIdle(d time.Duration) Option {
	return option(func(cfg *config) {
		if cfg.maxIdle = d; d < 0 {
			cfg.Wrong = fmt.Errorf("WithMaxIdle: %v is negative", d)
		}
	})
}
