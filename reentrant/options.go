package reentrant

import (
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
