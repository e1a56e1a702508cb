package rwlock

import (
	"errors"
	"fmt"
	"time"

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
	maxIdle time.Duration
}

func (c config) wrong() error {
	switch {
	case c.handoff < 0:
		return fmt.Errorf("WithHandoff: %d is negative", c.handoff)
	case c.maxIdle < 0:
		return fmt.Errorf("WithMaxIdle: %v is negative", c.maxIdle)
	case c.clash:
		return errors.New("WithCuratorNames does not go together with WithKazooNames: Curator and kazoo do not see each other")
	}
	return nil
}

// reads returns how readers share grants. The writers of other libraries send no announcement.
func (c config) reads() queue.Sharing {
	if c.kinds != ours {
		return queue.Sharing{}
	}
	return queue.Sharing{Together: true, MaxIdle: c.maxIdle}
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

// WithMaxIdle keeps the lock after its last release, for up to d, while no other client wants it.
// The next caller of this RWMutex then acquires it without a request. A program that exits without
// [zklocks.Conn.Close] leaves the locks that it keeps held until its session expires. The default
// is 0: each release deletes the node.
//
// It is for locks that one process uses again and again, or that many processes read and few write.
// A process begins to keep a lock when it has acquired it a few times in succession, each time
// within d of the release before, and no conflicting caller of another process came in between. It
// stops while others often come first, or after it has kept the lock in vain.
//
// An idle lock has the price of a hold: the heartbeats of its connection, one each 2T/11 (1.8 s at
// T = 10 s), which all locks of the connection share. If the process dies, is paused or loses the
// network, others wait up to T plus a tick for a lock that it was not using: see
// [zklocks.WithSessionFile]. An idle lock that is not used sends a read after 5 s, 10 s, and so on
// up to each minute; a use after more than 5 s sends one read. So d should be a few times the
// usual pause between two uses.
//
// When a conflicting caller of another process queues, no further hold begins, and the last release
// deletes the node. While others wait, the writers of this RWMutex have one place in the queue: the
// next writer queues at the tail when the one before it has released the lock. A lock is not kept
// if a client asks for it ([zklocks.Conn.RequestRelease]), after a Downgrade, and if the context of
// the release or of [zklocks.Do] is canceled.
//
// TryLock and TryRLock queue for 50 ms or a few round trips, in which an idle holder gives the lock
// up. Without the option they return [zklocks.ErrBusy] although the holder is idle: give it to all
// values that a program tries.
//
// The holders of a series share one node, one token and one guard, as with [WithHandoff]. With the
// names of Curator or kazoo the lock is kept for writers alone.
func WithMaxIdle(d time.Duration) Option {
	return option(func(cfg *config) { cfg.maxIdle = d })
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
