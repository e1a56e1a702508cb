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
	bells  []chan struct{} // of the waiters; conn.mu guards it
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
	switch {
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
	for _, bell := range w.bells {
		ring(bell)
	}
	w.bells = nil
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default: // it rings already
	}
}

// Wait returns true when one of the watches has fired, and false when late yields or ctx ends. A
// nil watch never fires.
//
// The goroutine that reads the connection stores each event before it passes on a later packet. So
// when Wait returns true, Fired reports whatever the server sent before the event that ended the
// wait.
func Wait(ctx context.Context, late <-chan time.Time, watches ...*Watch) bool {
	bell := make(chan struct{}, 1)
	for _, w := range watches {
		w.add(bell)
	}
	defer func() {
		for _, w := range watches {
			w.forget(bell)
		}
	}()
	select {
	case <-bell:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// add has the bell rung when the watch fires, or now if it has fired.
func (w *Watch) add(bell chan struct{}) {
	if w == nil {
		return
	}
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	if w.event.Load() != nil {
		ring(bell)
	} else {
		w.bells = append(w.bells, bell)
	}
}

// forget removes the bell: the watch may outlive many waiters.
func (w *Watch) forget(bell chan struct{}) {
	if w == nil || w.event.Load() != nil {
		return
	}
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	if i := slices.Index(w.bells, bell); i >= 0 {
		w.bells = slices.Delete(w.bells, i, i+1)
	}
}
