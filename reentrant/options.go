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

// WithKazooNames names the nodes as kazoo's Lock does, so that Go and Python
// processes share one lock; all who use the path must do so by these names. The
// default are those of Curator's InterProcessMutex and of zk.Lock.
//
// The directory stays when it is empty, as kazoo's do: a kazoo lock makes it once
// and fails for ever when it has gone.
func WithKazooNames() Option {
	return option(func(cfg *config) { cfg.kind = znode.KazooLock })
}
