package rwlock

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
)

// sharedGrant is a read lock that goroutines of one process hold together, by one node.
type sharedGrant struct {
	grant   *queue.Grant
	sharing *queue.NodeSharing
	linger  time.Duration
	current *atomic.Pointer[sharedGrant] // the one that readers find, which need not be this one
	over    chan struct{}                // closed when it has ended

	kept      atomic.Bool  // idleLoop runs, or has run
	unkept    atomic.Bool  // idleLoop has ended, or is about to, because a writer has come
	idleSince atomic.Int64 // when the last reader left, in nanoseconds since start

	// readers counts the holds. From ended on no reader joins, and the node is on its way out. All readers that join and leave
	// write here: what they only read is not in the same cache line, nor in the one that is fetched with it.
	_       [128]byte
	readers atomic.Int64
	_       [120]byte
}

func newSharedGrant(grant *queue.Grant, sharing *queue.NodeSharing, linger time.Duration, current *atomic.Pointer[sharedGrant], readers int) *sharedGrant {
	g := &sharedGrant{grant: grant, sharing: sharing, linger: linger, current: current, over: make(chan struct{})}
	g.readers.Store(int64(readers))
	return g
}

const ended = math.MinInt64

var start = time.Now()

// join makes the caller a reader. It fails for good once the grant is lost or over, a writer has come, or the connection is
// another. The first reader that joins asks whether the node exists; all others make no request.
func (g *sharedGrant) join(ctx context.Context) bool {
	if g.grant.Err() != nil {
		return false
	}
	if g.sharing.CanJoin() {
		if g.grant.Watched() {
			return g.enter()
		}
	} else if !g.sharing.Unwatched() {
		return false
	}
	// It takes requests to know more. The reader that makes them counts meanwhile: readers that hold for less time than a
	// request takes would all have left before the answer, and no grant would live long enough to be joined.
	if !g.enter() {
		return false
	}
	if g.ask(ctx) {
		return true
	}
	g.leaveAsync()
	return false
}

// enter counts one more reader, unless the grant is over.
func (g *sharedGrant) enter() bool {
	if g.readers.Add(1) > 0 {
		return true
	}
	g.readers.Add(-1)
	return false
}

// ask finds out whether the node exists, and no writer is behind it.
func (g *sharedGrant) ask(ctx context.Context) bool {
	if g.sharing.EnsureWatch(ctx) && g.grant.Err() != nil {
		return false
	}
	return g.grant.Exists(ctx) && g.sharing.CanJoin()
}

// end ends a grant that has no readers, and reports whether it did. Then the caller releases it.
func (g *sharedGrant) end() bool {
	if !g.readers.CompareAndSwap(0, ended) {
		return false
	}
	close(g.over)
	return true
}

// leave ends one hold. The last reader releases the grant, or leaves it for readers that come soon. If another joins before the
// end, that is the last one then.
//
// Readers find the current grant only, so no other stays idle. leave looks whether it is current after it has counted itself
// out; what replaces it looks whether readers are left after it has done so. So one of the two ends the grant.
func (g *sharedGrant) leave(ctx context.Context) error {
	if g.linger > 0 && g.readers.Load() == 1 {
		g.idleSince.Store(int64(time.Since(start))) // before idleLoop can see that none is left
	}
	if g.readers.Add(-1) > 0 {
		return nil
	}
	if g.linger > 0 && g.grant.Err() == nil && g.sharing.CanJoin() && g.current.Load() == g {
		g.keep()
		return nil
	}
	if g.end() {
		return g.grant.Release(ctx)
	}
	return nil
}

// leaveAsync is leave for a reader that does not wait for the answer.
func (g *sharedGrant) leaveAsync() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = g.leave(ctx)
}

// keep sees to it that an idle grant ends.
func (g *sharedGrant) keep() {
	if g.kept.CompareAndSwap(false, true) {
		go g.idleLoop()
	} else if g.unkept.Load() {
		g.releaseIdle()
	}
}

// idleLoop ends the grant when it has been idle for too long, or a writer comes. One that is lost needs no end.
func (g *sharedGrant) idleLoop() {
	lost := g.grant.State().Lost()
	writers := g.sharing.Writers()
	if writers == nil { // a writer has come in between
		g.unkept.Store(true)
		g.releaseIdle()
		return
	}
	timer := time.NewTimer(g.linger)
	defer timer.Stop()
	for {
		select {
		case <-g.over:
			return
		case <-lost:
			return
		case event, first := <-writers.C():
			writers.Event(event, first)
			g.unkept.Store(true)
			g.releaseIdle() // if readers are inside, the last one ends it
			return
		case <-timer.C:
		}
		left := g.linger
		if g.readers.Load() == 0 {
			left -= time.Since(start) - time.Duration(g.idleSince.Load())
		}
		if left <= 0 {
			g.releaseIdle()
			left = g.linger
		}
		timer.Reset(left)
	}
}

// releaseIdle ends the grant if it is idle.
func (g *sharedGrant) releaseIdle() {
	if g.end() {
		g.grant.ReleaseAsync()
	}
}
