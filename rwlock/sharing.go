package rwlock

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/zklocks/zklocks/internal/queue"
)

// sharedGrant is a read lock that goroutines of one process hold together, with one node.
type sharedGrant struct {
	grant   *queue.Grant
	sharing *queue.NodeSharing

	// readers counts the holds. If it is negative, no reader joins, and the node is released. All
	// readers that join and leave write it, so the fields that they only read are in other cache
	// lines, and not in the next, which is prefetched together with this line.
	_       [128]byte
	readers atomic.Int64
	_       [120]byte
}

func newSharedGrant(grant *queue.Grant, sharing *queue.NodeSharing, readers int) *sharedGrant {
	g := &sharedGrant{grant: grant, sharing: sharing}
	g.readers.Store(int64(readers))
	return g
}

const ended = math.MinInt64

// join makes the caller a reader. If the grant has ended, it returns false. After a writer has
// queued, or the connection was replaced, it returns false until another listing shows no writer
// behind the node. A join sends no request while the node is known to exist; the first join has to
// check.
func (g *sharedGrant) join(ctx context.Context) bool {
	if g.grant.Err() != nil {
		return false
	}
	if g.sharing.CanJoin() {
		if g.grant.KnownToExist() {
			return g.enter()
		}
	} else if !g.sharing.Unwatched() {
		return false
	}
	// The check sends requests. Meanwhile this reader already counts as a holder: otherwise readers
	// that hold for less time than a request takes would all have left before the answer, and no
	// grant would live long enough to be joined.
	if !g.enter() {
		return false
	}
	if g.ask(ctx) {
		return true
	}
	_ = g.leave(queue.NoWait)
	return false
}

// enter adds a reader, unless the grant has ended.
func (g *sharedGrant) enter() bool {
	if g.readers.Add(1) > 0 {
		return true
	}
	g.readers.Add(-1)
	return false
}

// ask checks by requests that the node exists and that no writer is queued behind it.
func (g *sharedGrant) ask(ctx context.Context) bool {
	if g.sharing.EnsureWatch(ctx) && g.grant.Err() != nil {
		return false
	}
	return g.grant.Exists(ctx) && g.sharing.CanJoin()
}

func (g *sharedGrant) Leave(ctx context.Context, _ *queue.Hold) error { return g.leave(ctx) }

// leave ends a hold. The last reader releases the grant.
func (g *sharedGrant) leave(ctx context.Context) error {
	if g.readers.Add(-1) == 0 && g.readers.CompareAndSwap(0, ended) {
		return g.grant.Release(ctx)
	}
	return nil
}
