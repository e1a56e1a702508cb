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
	kind znode.Kind
}

// WithKazooNames names the nodes as kazoo's Lock does, so that Go and Python processes share one
// lock; all users of the path must use these names. The default names are those of Curator's
// InterProcessMutex and of zk.Lock.
//
// The directory stays when it is empty, as kazoo's does: a kazoo lock creates it once, and fails
// forever after it is gone.
func WithKazooNames() Option {
	return option(func(cfg *config) { cfg.kind = znode.KazooLock })
}
