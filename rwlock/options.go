package rwlock

import (
	"errors"
	"fmt"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// Option changes a default of [New]. Every [zklocks.Option] is also an Option.
type Option interface{ rwOption }

type rwOption = slot.RWOption

type option = slot.RW[config]

type config struct {
	queue.Config
	kinds   kinds
	clash   bool // two options set different names
	handoff int
}

func (c config) wrong() error {
	switch {
	case c.handoff < 0:
		return fmt.Errorf("WithHandoff: %d is negative", c.handoff)
	case c.clash:
		return errors.New("WithCuratorNames does not go together with WithKazooNames: Curator and kazoo do not see each other")
	}
	return nil
}

// WithHandoff lets the writers that wait on one RWMutex value hand the lock on to each other, up to
// n times in a series, without any request. After a series the next node in the queue is granted
// the lock, and the next writer of the value queues behind callers of other processes that have
// arrived meanwhile. So a waiter in another process may have to wait for n more holds. The default
// is 0: each writer queues separately.
//
// The holders of a series share one node, one token and one guard. These fence them from other
// processes and from other series, but not from each other. If another program deletes the node,
// the series continues until the deletion event arrives; the current holder then loses the lock.
func WithHandoff(n int) Option {
	return option(func(cfg *config) { cfg.handoff = n })
}

// WithCuratorNames gives the nodes the names that Apache Curator's InterProcessReadWriteLock uses,
// so that Go and JVM processes share one lock. All users of the path must use these names. Readers
// of the process do not share a node then, because a writer in a JVM sends no announcement that
// would stop readers from joining.
func WithCuratorNames() Option { return named(curator) }

// WithKazooNames gives the nodes the names that kazoo's WriteLock, ReadLock and Lock use, so that
// Go and Python processes share one lock. All users of the path must use these names. Readers of
// the process do not share a node then, see WithCuratorNames.
//
// With these names the empty directory is not deleted: a kazoo lock creates it once, and fails
// forever after it is gone.
func WithKazooNames() Option { return named(kazoo) }

func named(k kinds) Option {
	return option(func(cfg *config) {
		cfg.clash = cfg.clash || cfg.kinds != ours && cfg.kinds != k
		cfg.kinds = k
	})
}
