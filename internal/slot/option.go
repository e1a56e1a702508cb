package slot

import (
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/wire"
)

// The options of each package are interfaces that only the types below implement.
type (
	// ConnectOption is embedded by zklocks.ConnectOption.
	ConnectOption interface{ connect() }
	// RWOption is embedded by rwlock.Option.
	RWOption interface{ rw() }
	// ReentrantOption is embedded by reentrant.Option.
	ReentrantOption interface{ reentrant() }
	// SemaphoreOption is embedded by semaphore.Option.
	SemaphoreOption interface{ semaphore() }
	// LeaderOption is embedded by leader.Option.
	LeaderOption interface{ leader() }
	// LockOption is embedded by zklocks.Option.
	LockOption interface {
		ConnectOption
		RWOption
		ReentrantOption
		SemaphoreOption
		LeaderOption
	}
)

// Common is an option of every lock.
type Common func(*queue.Config)

func (Common) connect()   {}
func (Common) rw()        {}
func (Common) reentrant() {}
func (Common) semaphore() {}
func (Common) leader()    {}

// Connect is an option of Connect alone.
type Connect struct {
	Wire wire.Option
	Lock Common // a default of all locks that the option sets, too; may be nil
}

func (Connect) connect() {}

// Chroot is a path that is put in front of all locks' paths.
type Chroot string

func (Chroot) connect() {}

// RW is an option of package rwlock, whose configuration is T. Reentrant, Semaphore and Leader are
// options of their packages.
type (
	RW[T any]        func(*T)
	Reentrant[T any] func(*T)
	Semaphore[T any] func(*T)
	Leader[T any]    func(*T)
)

func (RW[T]) rw()               {}
func (Reentrant[T]) reentrant() {}
func (Semaphore[T]) semaphore() {}
func (Leader[T]) leader()       {}

// Apply applies the options of a recipe: a Common to the common configuration, an option of the
// recipe's type F to the recipe's own configuration.
func Apply[O any, T any, F ~func(*T)](opts []O, common *queue.Config, own *T, _ F) {
	for _, opt := range opts {
		switch set := any(opt).(type) {
		case Common:
			set(common)
		case F:
			set(own)
		}
	}
}
