package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// dirView is what this process knows about the writers in a directory. It is one listing, and a
// watch on the directory's data, which each writer writes in the transaction that creates its node.
// As long as the watch has not fired and the connection is the same, every writer in the queue is
// in the listing.
//
// Readers use it twice:
//   - They share a node while no writer is queued behind it (sharedNode). This concerns fairness,
//     for which the watch is enough, for a while (expires).
//   - They need no listing while there is no writer at all (shortcut.go). This concerns safety,
//     which rests on view.check in the reader's create, and on sameDir. The watch alone would not be
//     enough: the server withholds its event while the client may not read the directory. It saves
//     creates that would fail.
//
// The watch takes one request each time that a writer has come. So a listing sets it only if the
// two listings before have shown the same version.
type dirView struct {
	now   atomic.Pointer[view]          // each method loads it once
	mzxid atomic.Int64                  // of the directory's data in the last listing
	quiet atomic.Bool                   // the listing before it had the same mzxid
	timed atomic.Bool                   // a timer will doubt the view of now
	asks  atomic.Pointer[chan struct{}] // has an element while a caller asks whether a writer has come; nil: none has asked
}

// asking returns asks. Most values never ask.
func (d *dirView) asking() chan struct{} {
	if d.asks.Load() == nil {
		asks := make(chan struct{}, 1)
		d.asks.CompareAndSwap(nil, &asks)
	}
	return *d.asks.Load()
}

// view is one listing, and its watch. The methods may be called on nil.
type view struct {
	client  *zkclient.Client
	epoch   uint64
	mzxid   int64           // of the directory's data
	newest  int64           // the number of the last writer; -1: none
	writers *zkclient.Watch // nil: no watch was set, see sharedNode.ask
	proved  *atomic.Int64   // the zxid up to which the directory is known to be the same
	doubted bool            // the server may have withheld a writer's event: a reader that would join asks
	// check fails if a writer has come since the listing, or the client may not read the directory.
	// It does not fail in a directory that was deleted, created again and touched by as many
	// writers, see sameDir.
	check *zk.CheckVersionRequest
}

// watchWriters watches the data of the directory. It returns nil if that fails: the next listing
// returns the error.
func (q *Queue) watchWriters(ctx context.Context, sess int64) *zkclient.Watch {
	w, _ := q.client.Watch(ctx, sess, q.dir)
	return w
}

// listed records a listing by w (invariant 6). Only if the listing and the watch have seen the same
// version of the directory's data does every later writer fire the watch.
func (d *dirView) listed(w *waiter, nodes []znode.Node, dir *zk.Stat, writers *zkclient.Watch) {
	q := w.queue
	v := &view{client: q.client, epoch: w.epoch, mzxid: dir.Mzxid, newest: -1, writers: writers, proved: new(atomic.Int64)}
	v.check = &zk.CheckVersionRequest{Path: q.dir, Version: dir.Version}
	v.proved.Store(dir.Pzxid)
	d.quiet.Store(d.mzxid.Swap(dir.Mzxid) == dir.Mzxid)
	for _, n := range nodes {
		if q.rule(w.request, Limit{}).waitsFor(n) {
			v.newest = n.Seq
		}
	}
	now := d.now.Load()
	switch {
	case writers == nil:
		if now.valid() && now.mzxid == dir.Mzxid {
			v.writers = now.writers // the watch covers this listing, too
		}
	case writers.Stat.Mzxid < dir.Mzxid:
		writers.Miss() // its event is under way or withheld
		v = nil
	case writers.Stat.Mzxid > dir.Mzxid:
		v = nil
	}
	//invariant 6: v == nil || v.writers == nil || v.writers.Stat.Mzxid == v.mzxid
	if v.valid() || !now.valid() {
		d.now.Store(v)
	}
	w.request.shared.listed(w.nodes[0], dir.Mzxid)
}

// valid reports whether no writer has come since the listing, which came on the present connection.
// The watch fires when the connection ends.
func (v *view) valid() bool {
	return v != nil && v.writers != nil && !fired(v.writers) && v.client.Epoch() == v.epoch
}

// expires has the view doubted after FirstRecheck: then no reader joins although the server has
// withheld a writer's event. Because of the timer a reader that joins reads no clock.
func (d *dirView) expires(v *view) {
	if d.timed.Load() || d.timed.Swap(true) {
		return
	}
	time.AfterFunc(FirstRecheck, func() {
		doubted := *v
		doubted.doubted = true
		d.now.CompareAndSwap(v, &doubted)
		d.timed.Store(false)
	})
}

// noWriter returns the view if no writer is known to be in the queue; nil otherwise.
func (d *dirView) noWriter() *view {
	v := d.now.Load()
	if !v.valid() || v.newest >= 0 {
		return nil
	}
	return v
}

// sameDir reports whether the directory in which the transaction zxid has passed v.check is the
// directory of the listing. In another directory that passes, version writers have come since.
// Besides their transactions, the first of which may have made the directory, there were at least
// three: the client lost READ on the directory, or the watch would have fired; the directory was
// deleted; and zxid itself. With version 0 no writer has come to either directory.
func (v *view) sameDir(zxid int64) bool {
	version, last := int64(v.check.Version), v.proved.Load()
	if version != 0 && zxid-last >= version+3 {
		return false
	}
	v.proved.CompareAndSwap(last, max(last, zxid))
	return true
}

// sharedNode decides whether other readers of one rwlock.RWMutex may use the node of the first,
// queued or granted, instead of creating their own. Its methods may be called from any goroutine.
type sharedNode struct {
	queue *Queue
	at    atomic.Int64 // the node's number + 1; 0: the queue has not been listed yet
	mzxid atomic.Int64 // of the directory's data, as of then
}

// listed records that the node was in a listing, or in a view that its create has checked.
func (s *sharedNode) listed(n znode.Node, mzxid int64) {
	s.mzxid.Store(mzxid)
	s.at.Store(n.Seq + 1)
}

// An answer to the question whether another caller may use a node.
type answer int

const (
	no      answer = iota
	unknown        // ask finds out
	yes
)

// may reports whether another reader may use the node: no writer is known to be queued behind it.
// Before the first listing every reader may: readers that wait for the same listing count as one
// arrival. If the listing has set no watch, the answer is unknown.
func (s *sharedNode) may() answer {
	if s.at.Load() == 0 {
		return yes
	}
	v := s.queue.view.now.Load()
	switch {
	case v == nil || v.newest >= s.at.Load()-1:
		return no
	case v.writers == nil:
		return unknown
	case !v.valid():
		return no
	case v.doubted:
		return unknown
	}
	//invariant 6: v.newest < s.at.Load()-1
	s.queue.view.expires(v)
	return yes
}

// ask is may, but if the answer is unknown, it sets the watch, or reads the directory. If the version
// of the directory's data is still the same, no writer has come in between. One caller asks, and the
// others wait for its answer.
func (s *sharedNode) ask(ctx context.Context) answer {
	d := &s.queue.view
	if may := s.may(); may != unknown {
		return may
	}
	asks := d.asking()
	select {
	case asks <- struct{}{}:
		defer func() { <-asks }()
	case <-ctx.Done():
		return no
	}
	for { // again if another listing has come meanwhile
		v, may := d.now.Load(), s.may()
		if v == nil || may != unknown {
			return may
		}
		var dir *zk.Stat
		proved := *v
		if v.writers != nil {
			_, dir, _ = s.queue.client.Get(ctx, s.queue.dir)
			proved.doubted = false
		} else if proved.writers = s.queue.watchWriters(ctx, zkclient.AnySession); proved.writers != nil {
			dir = proved.writers.Stat
		}
		switch {
		case dir == nil:
			return unknown
		case dir.Mzxid == v.mzxid:
			d.now.CompareAndSwap(v, &proved)
		default:
			d.now.CompareAndSwap(v, nil)
		}
	}
}

// writers returns the watch that fires when a writer comes; nil: there is none.
func (s *sharedNode) writers() *zkclient.Watch {
	if v := s.queue.view.now.Load(); v.valid() {
		return v.writers
	}
	return nil
}
