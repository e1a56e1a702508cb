package session

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
)

// Watch is a data watch on one node, shared by everybody in the process who
// waits for that node. It fires once.
type Watch struct {
	Data []byte
	Stat *zk.Stat

	stretch uint64 // of the connection, when it was set
	fresh   bool   // that is known
	raw     <-chan zk.Event
	settled chan struct{} // closed once event is known
	known   atomic.Bool   // the same, for those who only look
	event   zk.Event
}

// SetIn reports whether the watch was set in this stretch of connection.
func (w *Watch) SetIn(stretch uint64) bool { return w.fresh && w.stretch == stretch }

// C is the client's own channel: it yields the event to one receiver and is
// closed for all others. Whatever is received must be given to Event. There is
// no goroutine in between, because forwarding would lose the order in which
// events of different nodes came.
func (w *Watch) C() <-chan zk.Event { return w.raw }

// Event completes a receive from C and returns the event.
func (w *Watch) Event(event zk.Event, first bool) zk.Event {
	if first {
		w.event = event
		w.known.Store(true)
		close(w.settled)
	}
	<-w.settled // whoever got the event is about to say which it was
	return w.event
}

// Fired looks, without waiting, whether the watch has fired.
func (w *Watch) Fired() (zk.Event, bool) {
	select {
	case event, first := <-w.raw:
		return w.Event(event, first), true
	default:
	}
	// The client sends the event to one and then closes the channel for the others.
	// In between somebody may know already.
	if w.known.Load() {
		return w.event, true
	}
	return zk.Event{}, false
}

// Gone reports whether an event says that the node was deleted. Above all it is
// not when the session or the connection ended: that says nothing of the node.
func Gone(event zk.Event) bool { return event.Type == zk.EventNodeDeleted }

// watches is one GetW per node for all waiters of the process. The client can
// not take a watch back, so one that nobody waits for any more stays here, to be
// used again by the next who waits for the same node, until it fires.
type watches struct {
	mu    sync.Mutex
	at    map[watchKey]*watchEntry
	sweep int // size at which to look for fired ones that nobody came back for
}

// watchKey has the session in it: a watch of the last session grants nothing in
// the next.
type watchKey struct {
	session int64
	path    string
}

type watchEntry struct {
	ready chan struct{} // closed when watch or err is known
	watch *Watch
	err   error
}

// settled reports whether it is known what came of an entry.
func (e *watchEntry) settled() bool {
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

// fired reports whether an entry is of no more use; an entry that is being made is.
func (e *watchEntry) fired() bool {
	if !e.settled() {
		return false
	}
	if e.err != nil {
		return true
	}
	_, fired := e.watch.Fired()
	return fired
}

// Watch returns the process's watch on a node, setting it if need be. It returns
// zk.ErrNoNode if the node does not exist, ErrOver if the session is over.
//
// It returns no watch that is older than the connection. The client sets those
// again, but later than some of what it asks by then; and of a node that is gone
// they say that it was deleted, whatever else happened to it before.
//
// It uses GetW and never ExistsW: on a node that does not exist ExistsW leaves a
// watch that, as sequence numbers do not come back, stays for ever.
func (c *Client) Watch(ctx context.Context, session int64, path string) (*Watch, error) {
	for {
		if err := Ended(ctx); err != nil {
			return nil, err
		}
		stretch, known := c.Unbroken()
		serves := func(w *Watch) bool { return !known || w.SetIn(stretch) }
		e, own := c.watches.entry(watchKey{session, path}, serves)
		switch {
		case own && ctx.Done() == nil:
			c.set(session, path, e)
		case own:
			go c.set(session, path, e)
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, Ended(ctx)
		}
		if e.err != nil {
			return nil, e.err
		}
		if !c.In(session) {
			return nil, ErrOver
		}
		if serves(e.watch) {
			return e.watch, nil
		}
		// The connection was made anew meanwhile.
	}
}

// entry returns the living entry of a key, or makes one, which the caller has to set.
func (w *watches) entry(key watchKey, serves func(*Watch) bool) (e *watchEntry, own bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.at[key]; e != nil && !e.fired() && (!e.settled() || serves(e.watch)) {
		return e, false
	}
	if len(w.at) >= w.sweep {
		for k, e := range w.at {
			if e.fired() {
				delete(w.at, k)
			}
		}
		w.sweep = 2*len(w.at) + 64
	}
	if w.at == nil {
		w.at = make(map[watchKey]*watchEntry)
	}
	e = &watchEntry{ready: make(chan struct{})}
	w.at[key] = e
	return e, true
}

// drop forgets an entry that has come to nothing.
func (w *watches) drop(key watchKey, e *watchEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at[key] == e {
		delete(w.at, key)
	}
}

// set asks until the server answers. It goes on when the one who asked first has
// gone, for others may wait for it; and if nobody does, the next will find it.
func (c *Client) set(session int64, path string, e *watchEntry) {
	for retry := c.retry(); ; {
		if e.err = c.connected(context.Background()); e.err != nil {
			break
		}
		if !c.In(session) {
			e.err = ErrOver
			break
		}
		stretch, known := c.Unbroken()
		data, stat, raw, err := c.conn.GetW(path)
		after, _ := c.Unbroken()
		o := outcomeOf(err)
		if o == done || o == refused {
			if !c.In(session) {
				err = ErrOver
			}
			if e.err = err; err == nil {
				e.watch = &Watch{
					Data: data, Stat: stat, raw: raw, settled: make(chan struct{}),
					stretch: stretch, fresh: known && after == stretch,
				}
			}
			break
		}
		if e.err = retry.again(context.Background(), "watch", err); e.err != nil {
			break
		}
	}
	if e.err != nil {
		c.watches.drop(watchKey{session, path}, e)
	}
	close(e.ready)
}
