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

// WithHandoff lets the writers that wait on one RWMutex value hand the lock over among themselves,
// without any request, up to n times in a row. After that the lock goes to the next node in the
// queue. So a waiter in another process whose turn it is waits for up to n more holds. The next
// waiter of the value queues no sooner than that, behind callers of other processes that have come
// meanwhile. The default is 0: each writer queues separately.
//
// All holders of one such row hold by one node: they share the token and the guard. So these fence
// the holders from other processes and other rows, but not from each other. A node that another
// program has deleted is handed on until the event of that arrives; the holder hears of it then.
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
// The directory stays when it is empty, as kazoo's does: a kazoo lock creates it once, and fails
// forever after it is gone.
func WithKazooNames() Option { return named(kazoo) }

func named(k kinds) Option {
	return option(func(cfg *config) {
		cfg.clash = cfg.clash || cfg.kinds != ours && cfg.kinds != k
		cfg.kinds = k
	})
}
