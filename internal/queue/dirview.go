package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// dirView is what this process knows of the writers in a directory. It rests on one listing and on
// a watch on the directory's data, which each writer touches in the transaction that creates its
// node. As long as that watch has not fired and the connection is the same, the writers in the
// queue are among those that the listing has shown.
//
// Readers use it twice: to share a node while no writer is queued behind it (NodeSharing), which is
// a matter of fairness, and to do without a listing while there is no writer at all (shortcut.go),
// which is one of safety. Safety rests on a check in the reader's create (view.check): it fails if
// a writer has touched the directory since the listing. The watch alone would not do: the server
// withholds its event while the client may not read the directory. It tells whether a create is
// worth the try, and of a directory that was deleted and made again. For fairness the watch does,
// for as long as the view is trusted.
//
// The watch takes one request each time that a writer has come. So a listing sets it only if the
// two before it have shown that no writer came in between.
type dirView struct {
	now   atomic.Pointer[view] // a method loads it once
	mzxid atomic.Int64         // of the directory's data in the last listing
	quiet atomic.Bool          // the listing before had the same
	timed atomic.Bool          // a timer will drop a view that is not trusted any more
}

// view is one listing, and its watch. The methods may be called on nil.
type view struct {
	queue   *Queue
	session int64
	epoch   uint64
	mzxid   int64           // of the directory's data
	version int32           // of them
	newest  int64           // the number of the last writer; -1: none
	writers *zkclient.Watch // nil: no watch was set, see NodeSharing.EnsureWatch
	proved  *atomic.Int64   // when a listing or a create has shown last that it is true, since began
}

var began = time.Now() // for durations that fit an atomic value

// watchWriters watches the data of the directory. It returns nil where that is not possible; the
// listing beside it tells why.
func (q *Queue) watchWriters(ctx context.Context, sess int64) *zkclient.Watch {
	w, err := q.client.Watch(ctx, sess, q.dir)
	if err != nil {
		return nil
	}
	return w
}

// listed takes note of a listing by w (invariant 6). The listing and the watch were asked for side
// by side: only if both have seen the directory's data in the same version does every later writer
// fire the watch.
func (d *dirView) listed(w *waiter, nodes []znode.Node, dir *zk.Stat, writers *zkclient.Watch) {
	if dir == nil {
		return
	}
	v := &view{queue: w.queue, session: w.sess, epoch: w.epoch, mzxid: dir.Mzxid, version: dir.Version, newest: -1, writers: writers, proved: new(atomic.Int64)}
	v.prove()
	d.quiet.Store(d.mzxid.Swap(dir.Mzxid) == dir.Mzxid)
	reader := w.queue.rule(w.request, Limit{})
	for _, n := range nodes {
		if reader.waitsFor(n) {
			v.newest = n.Seq
		}
	}
	switch now := d.now.Load(); {
	case writers != nil:
		if writers.Stat.Mzxid != dir.Mzxid {
			v = nil
		}
		if writers.Stat.Mzxid < dir.Mzxid {
			writers.Miss() // its event is on the way or withheld
		}
	case now.valid() && now.mzxid == dir.Mzxid:
		v.writers = now.writers // the watch covers this listing, too
	}
	d.put(v)
	w.request.Sharing.queuedAt(w.nodes[0])
}

// put stores a view. One that is valid is replaced only by another that is.
func (d *dirView) put(v *view) {
	for {
		now := d.now.Load()
		if now.valid() && !v.valid() || d.now.CompareAndSwap(now, v) {
			return
		}
	}
}

// valid reports whether no writer has come since the listing, which came on the present connection.
// The watch fires when the connection ends.
func (v *view) valid() bool {
	if v == nil || v.writers == nil {
		return false
	}
	_, fired := v.writers.Fired()
	return !fired && v.queue.client.Epoch() == v.epoch
}

// expires has a view dropped soon after it is not trusted any more, so that a writer of whom no
// event tells ends the joining. A reader that joins does not read the clock for it.
func (d *dirView) expires() {
	if d.timed.Load() || d.timed.Swap(true) {
		return
	}
	time.AfterFunc(FirstRecheck, func() {
		if v := d.now.Load(); v != nil && !v.trusted() {
			d.now.CompareAndSwap(v, nil)
		}
		d.timed.Store(false)
	})
}

// noWriter returns the view if no writer is known to be in the queue; nil otherwise.
func (d *dirView) noWriter() *view {
	v := d.now.Load()
	if !v.valid() || v.newest >= 0 || !v.trusted() {
		return nil
	}
	return v
}

func (v *view) prove() { v.proved.Store(int64(time.Since(began))) }

// trusted reports whether the last proof is recent enough for a reader to rest on it, see check.
func (v *view) trusted() bool {
	return time.Since(began)-time.Duration(v.proved.Load()) <= FirstRecheck
}

// check fails if a writer has come since the listing, or the client may not read the directory. It
// does not fail in a directory that was deleted, made again and touched by as many writers: of that
// an event tells, unless the client might not read the directory when it was deleted. So a reader
// lists where the last proof is older than FirstRecheck. One case goes unnoticed: all of that
// within the delay, while the client may not read the directory.
func (v *view) check() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: v.queue.dir, Version: v.version}
}
