package rwlock

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
)

// sharedGrant is a read lock that goroutines of one process hold together, with one node.
type sharedGrant struct {
	grant   *queue.Grant
	sharing *queue.NodeSharing
	sharer  *readSharer
	over    chan struct{} // closed when the grant has ended

	kept      atomic.Bool  // idleLoop has been started
	unkept    atomic.Bool  // no longer kept idle: a writer has queued, or the release is requested
	idleSince atomic.Int64 // when the last reader left, in nanoseconds since start

	// readers counts the holds. When it is negative, no reader joins, and the node is released. All
	// readers that join and leave write it, so the fields that they only read are not in the same
	// cache line, nor in the next one, which is prefetched with it.
	_       [128]byte
	readers atomic.Int64
	_       [120]byte
}

func newSharedGrant(r *readSharer, grant *queue.Grant, sharing *queue.NodeSharing, readers int) *sharedGrant {
	g := &sharedGrant{grant: grant, sharing: sharing, sharer: r, over: make(chan struct{})}
	g.readers.Store(int64(readers))
	return g
}

const ended = math.MinInt64

var start = time.Now()

// join makes the caller a reader. It fails for good if the grant is lost or has ended. After a
// writer has queued, or the connection was replaced, it fails until another listing shows no writer
// behind the node. A reader sends no request while the node is known to exist; the first one asks.
func (g *sharedGrant) join(ctx context.Context) bool {
	if g.grant.Err() != nil {
		return false
	}
	if g.sharing.CanJoin() {
		if g.grant.KnownToExist() {
			return g.enter()
		}
	} else if !g.sharing.Unwatched() {
		if g.sharer.linger > 0 {
			g.releaseIdle(queue.NoWait)
		}
		return false
	}
	// The check takes requests. Meanwhile the reader that sends them counts as a holder: readers
	// that hold for less time than a request takes would otherwise all have left before the answer,
	// and no grant would live long enough to be joined.
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

// ask checks that the node exists and that no writer is queued behind it.
func (g *sharedGrant) ask(ctx context.Context) bool {
	if g.sharing.EnsureWatch(ctx) && g.grant.Err() != nil {
		return false
	}
	return g.grant.Exists(ctx) && g.sharing.CanJoin()
}

// end ends a grant that has no readers, and reports whether it did. If so, the caller must release
// it.
func (g *sharedGrant) end() bool {
	if !g.readers.CompareAndSwap(0, ended) {
		return false
	}
	close(g.over)
	return true
}

// leave ends one hold. The last reader releases the grant, or leaves it idle for later readers. If
// another reader joins before the grant ends, that one is the last.
//
// Only the current grant stays idle, because readers join only that one. leave first decrements
// readers and then checks whether the grant is current; open first replaces the current grant and
// then checks whether the former one has readers. So one of the two ends the grant.
func (g *sharedGrant) leave(ctx context.Context) error {
	if g.sharer.linger > 0 {
		g.idleSince.Store(int64(time.Since(start))) // before idleLoop can see that no reader is left
	}
	if g.readers.Add(-1) > 0 {
		return nil
	}
	if g.sharer.linger > 0 && g.grant.Err() == nil && g.sharing.CanJoin() && g.sharer.current.Load() == g {
		g.keep()
		return nil
	}
	if g.end() {
		return g.grant.Release(ctx)
	}
	return nil
}

// drop ends the share of a reader that gives up because of err. It leaves no idle grant behind.
func (g *sharedGrant) drop(ctx context.Context, err error) {
	g.grant.GiveUp(err)
	if g.readers.Add(-1) <= 0 {
		g.releaseIdle(ctx)
	}
}

// keep makes sure that an idle grant ends.
func (g *sharedGrant) keep() {
	if g.kept.CompareAndSwap(false, true) {
		go g.idleLoop()
	} else if g.unkept.Load() {
		g.releaseIdle(queue.NoWait)
	}
}

// idleLoop ends the grant when it has been idle for too long, when a writer queues, with the
// connection, after which no reader may join it, or when its release is requested. A lost grant
// need not be ended.
func (g *sharedGrant) idleLoop() {
	lost := g.grant.State().Lost()
	asked := g.grant.ReleaseRequested()
	changed := g.sharing.Changed()
	writers := g.sharing.Writers()
	if writers == nil { // a writer has queued in between
		g.unkept.Store(true)
		g.releaseIdle(queue.NoWait)
		return
	}
	timer := time.NewTimer(g.sharer.linger)
	defer timer.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pause := queue.FirstLook
	look := time.NewTimer(pause)
	defer look.Stop()
	looked := make(chan bool, 1) // buffered: idleLoop may have returned
	for {
		select {
		case <-g.over:
			return
		case <-lost:
			return
		case <-timer.C:
			timer.Reset(g.lingers())
			continue
		case <-look.C:
			go func() { looked <- g.sharing.Look(ctx) }()
			continue
		case still := <-looked:
			if still {
				pause *= 2
				look.Reset(pause)
				continue
			}
		case event, first := <-writers.C():
			writers.Event(event, first)
		case <-changed:
		case <-asked:
		}
		g.unkept.Store(true)
		g.releaseIdle(queue.NoWait) // if it has readers, the last one ends it
		return
	}
}

// lingers ends the grant if it has been idle for too long, and returns when that may next be so.
func (g *sharedGrant) lingers() time.Duration {
	if g.readers.Load() > 0 {
		return max(g.sharer.linger, time.Millisecond) // a shorter linger would keep a processor busy
	}
	left := g.sharer.linger - (time.Since(start) - time.Duration(g.idleSince.Load()))
	if left <= 0 {
		g.releaseIdle(queue.NoWait)
		return g.sharer.linger
	}
	return left
}

// releaseIdle ends the grant if it is idle; ctx bounds the wait for the answer.
func (g *sharedGrant) releaseIdle(ctx context.Context) {
	if g.end() {
		_ = g.grant.Release(ctx)
	}
}
