package wire

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Watch belongs to one network connection. It fires once: by an event, by Miss, or by the end of
// the connection, which is the event zk.EventNotWatching. All waiters of the process for the same
// node share it.
type Watch struct {
	Path string
	Data []byte   // of WatchData; do not change them
	Stat *zk.Stat // of WatchData; of WatchChildren, if the directory exists

	conn   *packetConn
	kind   watchKind
	mark   string // the release marker that also fires it, or ""
	set    *setting
	absent bool // of WatchNodes: the node did not exist; not written after set.done is closed
	event  atomic.Pointer[zk.Event]
	bells  []*Bell // of the waiters; conn.mu guards it
}

// Fired returns the event that has fired the watch, if one has.
func (w *Watch) Fired() (zk.Event, bool) {
	if e := w.event.Load(); e != nil {
		return *e, true
	}
	return zk.Event{}, false
}

// Miss fires a watch with an event that says nothing. Call it if the node has changed without an
// event: the server withholds the event while the client may not read the node, and has removed
// the watch. The next caller sets another watch. It is not for a watch with a release marker.
func (w *Watch) Miss() {
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	w.conn.watches.remove(w)
	w.fire(new(zk.Event))
}

// Drop removes a watch for which no goroutine waits, and reports whether the watch has ended. It
// fires the watch as Miss does: whoever uses it later sets another. A server before 3.5 keeps the
// watch until it fires, and so does any server if the process has another watch on the node. Drop
// is not for a watch with a release marker.
func (w *Watch) Drop() bool {
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	switch w.sweep(); {
	case w.event.Load() != nil:
		return true
	case len(w.bells) > 0:
		return false
	}
	w.conn.watches.remove(w)
	w.fire(new(zk.Event))
	watchType := uint32(dataWatches)
	if w.kind == onChildren && w.Stat != nil {
		watchType = childWatches
	}
	if !w.conn.client.noRemoveWatches.Load() {
		go w.conn.unwatch(w.Path, watchType)
	}
	return true
}

// fire stores the event and wakes the waiters; caller holds conn.mu.
func (w *Watch) fire(e *zk.Event) {
	w.event.CompareAndSwap(nil, e)
	for _, b := range w.bells {
		b.ring()
	}
	w.bells = nil
}

// A Bell wakes one waiter.
type Bell struct {
	rings chan struct{}
	left  atomic.Bool // no goroutine waits for it any more
}

func (b *Bell) ring() {
	select {
	case b.rings <- struct{}{}:
	default: // it rings already
	}
}

// NewBell returns a bell that rings when one of the watches fires, and now if one has fired. A nil
// watch never fires. The waiter must call Leave.
func NewBell(watches ...*Watch) *Bell {
	b := &Bell{rings: make(chan struct{}, 1)}
	for _, w := range watches {
		if w != nil {
			w.add(b)
		}
	}
	return b
}

// add has the bell rung when the watch fires. Before the list of bells grows, those that were left
// are removed from it: the watch may outlive many waiters.
func (w *Watch) add(b *Bell) {
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	if w.event.Load() != nil {
		b.ring()
		return
	}
	if len(w.bells) == cap(w.bells) {
		w.sweep()
	}
	w.bells = append(w.bells, b)
}

// sweep removes the bells that were left; caller holds conn.mu.
func (w *Watch) sweep() {
	w.bells = slices.DeleteFunc(w.bells, func(b *Bell) bool { return b.left.Load() })
}

// Leave says that no goroutine waits for the bell any more.
func (b *Bell) Leave() { b.left.Store(true) }

// Wait returns true when the bell has rung since the last Wait, and false when late yields or ctx
// ends.
//
// The goroutine that reads the connection stores each event before it passes on a later packet. So
// when Wait returns true, Watch.Fired reports whatever the server sent before the event that rang.
// It may have reported that event before: then the bell has rung for nothing.
func (b *Bell) Wait(ctx context.Context, late <-chan time.Time) bool {
	select {
	case <-b.rings:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// Wait waits for the first event of some watches, see NewBell and Bell.Wait.
func Wait(ctx context.Context, late <-chan time.Time, watches ...*Watch) bool {
	b := NewBell(watches...)
	defer b.Leave()
	return b.Wait(ctx, late)
}
