package rwlock

import (
	"errors"
	"fmt"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// Option changes a default of [New]. Every [zklocks.Option] is one.
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

// WithHandoff lets the writers that wait on one RWMutex value hand the lock over to each other, up
// to n times in a series, without any request. After a series the lock goes to the next node in the
// queue, and the next waiter of the value queues behind callers of other processes that have
// arrived meanwhile. So a waiter in another process may have to wait for n more holds. The default
// is 0: each writer queues separately.
//
// The holders of one series share one node, one token and one guard: these fence them from other
// processes and from other series, and not from each other. If another program deletes the node,
// handing over continues until the deletion event arrives; the current holder then loses the lock.
func WithHandoff(n int) Option {
	return option(func(cfg *config) { cfg.handoff = n })
}

// WithCuratorNames names the nodes as Apache Curator's InterProcessReadWriteLock does, so that Go
// and JVM processes share one lock; all users of the path must use these names. Readers of the
// process do not share a node then, because a writer in a JVM sends no signal that would stop
// readers from joining.
func WithCuratorNames() Option { return named(curator) }

// WithKazooNames names the nodes as kazoo's WriteLock, ReadLock and Lock do, so that Go and Python
// processes share one lock; all users of the path must use these names. Readers of the process do
// not share a node then, see WithCuratorNames.
//
// The directory remains when it is empty, as kazoo's does: a kazoo lock creates it once, and fails
// forever if it is deleted.
func WithKazooNames() Option { return named(kazoo) }

func named(k kinds) Option {
	return option(func(cfg *config) {
		cfg.clash = cfg.clash || cfg.kinds != ours && cfg.kinds != k
		cfg.kinds = k
	})
}
