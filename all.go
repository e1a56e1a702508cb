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
// It may mix locks of any recipe, for reading and for writing. They exclude others as they do
// alone: plain locks on the same paths, other calls of All in whatever order they name the locks,
// and clients of other libraries where the locks have their names (rwlock.WithCuratorNames and the
// like). All of them must be of one [Conn], and each path may be given once, as a lock or as a
// semaphore. All may be nested.
//
// Calls of All never deadlock among each other, and none is overtaken: one transaction queues the
// caller at all the locks, so that all of them see the callers in the same order. A caller that
// waits for one of the locks is ahead of later callers at the others, too, which then wait for it.
// While a program holds a lock and asks for another, it can deadlock as ever. There is no
// counterpart in Curator, whose InterProcessMultiLock takes its locks one by one.
//
// The hold ends as a whole. When one of the locks is lost the hold is lost, and the others are
// given back after Lost is closed. Release gives back all in one transaction; a reentrant lock that
// the holder has entered again stays until the last hold on it is released. Token is the same for
// all of them: larger than that of every conflicting hold before, of each. Guard and Multi check
// the nodes of all. RWMutex.Downgrade takes the hold, and downgrades that one lock.
//
// The error of Lock and TryLock names the lock that it is of, and is as that of the lock alone. In
// addition these are errors at once, with nothing left in ZooKeeper: no lock; a lock twice; locks
// of two Conns; a value that is no lock of this module; a reentrant lock that the caller holds; and
// more than one request to a server can hold, which is 1 MB.
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
	joint, err := queue.Together(ctx, parts, op, wait)
	if err != nil {
		return nil, err
	}
	h := new(Hold)
	slot.Put(h, joint)
	return h, nil
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
