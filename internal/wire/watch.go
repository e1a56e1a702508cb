package wire

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Watch belongs to one network connection. It fires once: by an event, by Miss or Drop, or by the
// end of the connection, with the event zk.EventNotWatching. All waiters of a process for a node
// share a watch.
type Watch struct {
	Path string
	Data []byte   // if WatchData has set it; do not change the bytes
	Stat *zk.Stat // if WatchData has set it, or WatchChildren on a directory that exists
	Only string   // if WatchChildren has set it on a directory with one child: its name

	on     *packetConn
	kind   watchKind
	marker string                   // the release marker that also fires the watch; "": none
	set    chan struct{}            // closed when the request that sets the watch is over
	err    error                    // of that request; zk.ErrNoNode: the node did not exist
	event  atomic.Pointer[zk.Event] // nil: the watch has not fired

	// conn.mu guards what follows.
	isSet bool               // set is closed
	bells map[*Bell]struct{} // of the waiters
}

// watchKind is how a watch was set.
type watchKind int

const (
	onNode watchKind = iota // set by WatchNodes
	onData
	onChildren
)

// watches are the watches of a packetConn that have not fired, by path and by release marker.
type watches map[string][]*Watch

// find returns a watch of one of these kinds on a node, or nil.
func (s watches) find(path, marker string, kinds ...watchKind) *Watch {
	for _, w := range s[path] {
		if w.marker == marker && slices.Contains(kinds, w.kind) {
			return w
		}
	}
	return nil
}

// addWatch records a watch; caller holds conn.mu, as of all functions up to await.
func (p *packetConn) addWatch(path, marker string, kind watchKind) *Watch {
	watch := &Watch{Path: path, on: p, kind: kind, marker: marker, set: make(chan struct{})}
	if p.watches == nil {
		p.watches = make(watches)
	}
	p.watches[path] = append(p.watches[path], watch)
	if marker != "" {
		p.watches[marker] = append(p.watches[marker], watch)
	}
	return watch
}

func (s watches) remove(w *Watch) {
	for _, path := range []string{w.Path, w.marker} {
		if left := slices.DeleteFunc(s[path], func(o *Watch) bool { return o == w }); len(left) > 0 {
			s[path] = left
		} else {
			delete(s, path)
		}
	}
}

// setOver ends the request that sets a batch of watches.
func (s watches) setOver(batch []*Watch, err error) {
	for _, w := range batch {
		if w.isSet, w.err = true, cmp.Or(err, w.err); err != nil {
			s.remove(w)
		}
		close(w.set)
	}
}

// end fires all watches when their connection ends.
func (s watches) end() {
	for path, all := range s {
		e := &zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: path, Err: zk.ErrConnectionClosed}
		for _, w := range all {
			w.fire(e)
		}
	}
}

// firedBy reports whether an event of the watch's node or marker fires the watch.
func (w *Watch) firedBy(e *zk.Event) bool {
	switch {
	case e.Path != w.Path: // it is the marker's
		return e.Type == zk.EventNodeCreated
	case e.Type == zk.EventNodeDeleted:
		return true
	case e.Type == zk.EventNodeDataChanged:
		return w.kind != onChildren
	}
	return w.kind == onChildren
}

// fire stores the event and wakes the waiters.
func (w *Watch) fire(e *zk.Event) {
	w.event.CompareAndSwap(nil, e)
	for b := range w.bells {
		ring(b.rings)
	}
	w.bells = nil
}

// await waits until the watch is set. It returns the watch or the error of the request. If ctx is
// canceled first, the error is ErrNoAnswer; the watch is set nevertheless, for other waiters.
func (w *Watch) await(ctx context.Context) (*Watch, error) {
	select {
	case <-w.set:
	case <-ctx.Done():
		return nil, ErrNoAnswer
	case <-w.on.conn.quit.Done():
		return nil, ErrNoAnswer
	}
	if w.err != nil {
		return nil, w.err
	}
	return w, nil
}

// Fired returns the event that has fired the watch, if one has.
func (w *Watch) Fired() (zk.Event, bool) {
	if e := w.event.Load(); e != nil {
		return *e, true
	}
	return zk.Event{}, false
}

// Miss fires the watch with an event without content. It is for a node that has changed although no
// event has arrived: while the client may not read the node, the server removes the watch and sends
// nothing. The next caller sets another watch. The watch must not have a release marker.
func (w *Watch) Miss() {
	w.on.conn.mu.Lock()
	defer w.on.conn.mu.Unlock()
	w.miss()
}

func (w *Watch) miss() {
	w.on.watches.remove(w)
	w.fire(new(zk.Event))
}

// A Bell wakes one waiter.
type Bell struct {
	rings   chan struct{}
	watches []*Watch
}

// ring sends to a channel that has room for one value, unless it has one.
func ring(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// NewBell returns a bell that rings when one of the watches fires. If one has fired, it rings now.
// A nil watch never fires. The waiter must call Leave.
func NewBell(watches ...*Watch) *Bell {
	b := &Bell{rings: make(chan struct{}, 1), watches: watches}
	b.each(func(w *Watch) {
		if w.event.Load() != nil {
			ring(b.rings)
			return
		}
		if w.bells == nil {
			w.bells = make(map[*Bell]struct{})
		}
		w.bells[b] = struct{}{}
	})
	return b
}

// each calls f with each watch, locked.
func (b *Bell) each(f func(*Watch)) {
	for _, w := range b.watches {
		if w != nil {
			w.on.conn.mu.Lock()
			f(w)
			w.on.conn.mu.Unlock()
		}
	}
}

// Leave detaches the bell from its watches.
func (b *Bell) Leave() { b.each(func(w *Watch) { delete(w.bells, b) }) }

// Wait returns true if the bell has rung since the last Wait, and false if the channel late yields
// or ctx is canceled first.
//
// The reading goroutine stores each event before it passes on a later packet. So when Wait returns
// true, Watch.Fired reports each event that the server sent before the event that rang the bell. A
// caller may have seen all of them before.
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
