package rwlock

import (
	"errors"
	"fmt"
	"time"

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
	clash   bool // two options have named the nodes
	linger  time.Duration
	handoff int
}

func (c config) wrong() error {
	switch {
	case c.linger < 0:
		return fmt.Errorf("WithReadLinger: %v is negative", c.linger)
	case c.handoff < 0:
		return fmt.Errorf("WithHandoff: %d is negative", c.handoff)
	case c.clash:
		return errors.New("WithCuratorNames does not go together with WithKazooNames: Curator and kazoo do not see each other")
	case c.linger > 0 && c.kinds != ours:
		return errors.New("WithReadLinger does not go together with WithCuratorNames or WithKazooNames: reads are not shared then")
	}
	return nil
}

// WithReadLinger keeps an idle read lock for up to that long, so that those who
// read again soon find it: they hold it at once, as those who come while others
// hold it. It is given up as soon as somebody in line asks for the lock for writing. TryLock of
// another RWMutex value does not stand in line: it finds the lock busy meanwhile.
// Of one value one node stays at most, that of the reader that came last.
// The default is 0: the last reader of the process gives the lock back.
func WithReadLinger(d time.Duration) Option {
	return option(func(cfg *config) { cfg.linger = d })
}

// WithHandoff has those who wait for the lock for writing on one RWMutex value
// hand it on among themselves, without any request, up to n times in a row
// before it goes back to the line of the cluster. So somebody in another process
// whose turn it is waits for up to n more holds. The default is 0: everybody
// stands in line.
//
// All who hold in one such row hold by one node: they share the token and the
// guard, which therefore do not fence them from each other, only from others.
func WithHandoff(n int) Option {
	return option(func(cfg *config) { cfg.handoff = n })
}

// WithCuratorNames names the nodes as Apache Curator's InterProcessReadWriteLock
// does, so that Go and JVM processes share one lock; all who use the path must
// do so by these names. Reads are not shared within the process then, for a
// writer in a JVM does not announce itself to those who might go on joining.
func WithCuratorNames() Option { return named(curator) }

// WithKazooNames names the nodes as kazoo's WriteLock, ReadLock and Lock do, so
// that Go and Python processes share one lock; all who use the path must do so by
// these names. Reads are not shared within the process then, see WithCuratorNames.
//
// The directory stays when it is empty, as kazoo's do: a kazoo lock makes it once
// and fails for ever when it has gone.
func WithKazooNames() Option { return named(kazoo) }

func named(k kinds) Option {
	return option(func(cfg *config) {
		cfg.clash = cfg.clash || cfg.kinds != ours && cfg.kinds != k
		cfg.kinds = k
	})
}
