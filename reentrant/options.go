package reentrant

import (
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/znode"
)

// Option changes a default of [New]. Every [zklocks.Option] is one.
type Option interface{ reentrantOption }

type reentrantOption = slot.ReentrantOption

type option = slot.Reentrant[config]

type config struct {
	queue.Config
	kind      znode.Kind
	byContext bool
}

// WithContextOwner makes the context the only owner: a call re-enters if its context comes from
// [zklocks.Hold.Context] of a hold that is not released, and a call with any other context waits,
// also on the goroutine that has the lock. Pass the context of the hold to all code that takes the
// lock again, or that code waits for its own caller. The default is that the goroutine owns, too.
func WithContextOwner() Option { return option(func(cfg *config) { cfg.byContext = true }) }

// WithKazooNames names the nodes as kazoo's Lock does, so that Go and Python processes share one
// lock; all users of the path must use these names. The default names are those of Curator's
// InterProcessMutex and of zk.Lock.
//
// The directory stays when it is empty, as kazoo's does: a kazoo lock creates it once, and fails
// forever after it is gone.
func WithKazooNames() Option {
	return option(func(cfg *config) { cfg.kind = znode.KazooLock })
}
