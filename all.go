package zklocks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// All returns several locks as one [Locker]: its Lock takes all of them, or none.
//
//	hold, err := zklocks.All(from, to, ledger.RLocker(), slots.Locker(1)).Lock(ctx)
//
// It may mix locks of any package, for reading and for writing. All of them must belong to one
// [Conn], and each path may be given once. All may be nested.
//
// Calls of All never deadlock with each other, whatever order they name the locks in, and none is
// overtaken: one transaction queues the caller at all the locks, so that all of them see the
// callers in the same order. A caller that waits for one of the locks is ahead of later callers at
// the others, too, which then wait for it. A program that requests another lock while it holds one
// can still deadlock.
//
// The locks exclude others as each does alone: plain locks on the same paths, and clients of other
// libraries if the locks have their names (rwlock.WithCuratorNames and the like).
//
// The hold ends as a whole. If one of the locks is lost, the hold is lost, and the others are
// released after Lost is closed. Release releases all in one transaction; a reentrant lock that the
// holder has entered again stays until the last hold on it is released. Token is larger than the
// token of every earlier conflicting hold of each lock. Guard and Multi check the nodes of all.
// RWMutex.Downgrade takes the hold, and downgrades that one lock.
//
// The error of Lock and TryLock names the lock that failed, and is the error of that lock alone.
// These are further errors, returned at once with nothing left in ZooKeeper: no lock; a lock twice;
// locks of two Conns; a value that is not a lock of this module; a reentrant lock that the caller
// holds; and more than one request to a server can hold, which is 1 MB.
func All(locks ...Locker) Locker { return &all{slices.Clone(locks)} }

// all is not a slot.Part: nested in another it adds its locks to those of the other.
type all struct{ locks []Locker }

func (a *all) Lock(ctx context.Context) (*Hold, error)    { return a.take(ctx, "lock", true) }
func (a *all) TryLock(ctx context.Context) (*Hold, error) { return a.take(ctx, "try lock", false) }

func (a *all) take(ctx context.Context, op string, wait bool) (*Hold, error) {
	hold.NeedContext(ctx)
	parts, err := a.parts()
	if err != nil {
		return nil, fmt.Errorf("zklocks: %s all: %w", op, err)
	}
	h := new(slot.Held[Hold])
	if err := h.Together(ctx, parts, op, wait); err != nil {
		return nil, err
	}
	return slot.Put(h), nil
}

// parts are those of all locks, and of nested ones.
func (a *all) parts() (parts []queue.Part, err error) {
	if len(a.locks) == 0 {
		return nil, errors.New("there is no lock")
	}
	for _, lock := range a.locks {
		if nested, ok := lock.(*all); ok {
			inner, err := nested.parts()
			if err != nil {
				return nil, err
			}
			parts = append(parts, inner...)
			continue
		}
		part, err := slot.PartOf(lock)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}
