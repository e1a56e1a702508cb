package slot

import (
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/wire"
)

// The options of each package are interfaces that the types below implement, and no others can.
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
	Lock Common // an option of all locks that goes with it; nil: none does
}

func (Connect) connect() {}

// Chroot is the path below which all locks are.
type Chroot string

func (Chroot) connect() {}

// RW is an option of package rwlock, with its configuration T; Reentrant, Semaphore and Leader are
// those of their packages.
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

// Apply applies the options of a recipe: a common one to the common configuration, one of its own
// type F to its own.
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
