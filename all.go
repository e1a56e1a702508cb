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
// The locks may be of any package, for reading or for writing. All of them must belong to one
// [Conn], and no path may be given twice. All may be nested.
//
// Calls of All never deadlock with each other, in whatever order they list the locks, and no call
// is overtaken: one transaction queues the caller at all the locks, so the callers have the same
// order at each lock. A caller that waits for one of the locks is ahead of later callers at the
// others, too, so these callers wait for it. A program that requests another lock while it holds a
// lock can still deadlock.
//
// Each lock excludes the same callers as without All: plain locks on the same path, and clients of
// other libraries if the lock has their names (rwlock.WithCuratorNames and the like).
//
// The hold ends as a whole. If one of the locks is lost, the hold is lost, and the others are
// released after Lost is closed. Release releases all locks in one transaction; a reentrant lock
// that the holder has entered again remains held until the last hold on it is released. Token is
// larger than the token of every earlier conflicting hold of each lock. Guard and Multi check the
// nodes of all locks. RWMutex.Downgrade accepts the hold, and downgrades only its own lock.
//
// The error of Lock and TryLock names the lock that failed, and is the error of that lock alone.
// All returns further errors at once and creates no node for them: no lock; a lock twice; locks of
// two Conns; a value that is not a lock of this module; a reentrant lock that the caller holds; and
// a request that is larger than a server accepts, which is 1 MB.
func All(locks ...Locker) Locker { return &all{slices.Clone(locks)} }

// all does not implement slot.Part: an all inside another all adds its locks to the outer list.
type all struct{ locks []Locker }

func (a *all) Lock(ctx context.Context) (*Hold, error)    { return a.take(ctx, "lock", true) }
func (a *all) TryLock(ctx context.Context) (*Hold, error) { return a.take(ctx, "try lock", false) }

func (a *all) take(ctx context.Context, op string, wait bool) (*Hold, error) {
	hold.NeedContext(ctx)
	parts, err := a.parts()
	if err != nil {
		return nil, fmt.Errorf("zklocks: %s all: %w", op, err)
	}
	grant, leaver, call, err := queue.Together(ctx, parts, op, wait)
	if err != nil {
		return nil, err
	}
	return slot.Give(new(slot.Held[Hold]), grant, nil, leaver, call), nil
}

// parts returns the parts of all locks, nested locks included.
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
