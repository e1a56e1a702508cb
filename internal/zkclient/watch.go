package zkclient

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Watch is a data watch on one node, or a watch on the children of one, shared by all waiters of
// the process for that node. It fires once.
type Watch struct {
	Data []byte
	Stat *zk.Stat

	key     watchKey
	ready   chan struct{} // closed when it is set, or err is; shared by all watches that are set together
	err     error         // why it could not be set
	epoch   uint64        // epoch of the connection in which it was set; 0: unknown
	raw     <-chan zk.Event
	settled sync.WaitGroup // until event is set; a channel would take six times the memory
	event   zk.Event
	known   atomic.Bool // event is set
	missed  atomic.Bool // see Miss
}

func newWatch(key watchKey, ready chan struct{}) *Watch {
	w := &Watch{key: key, ready: ready}
	w.settled.Add(1)
	return w
}

// Path is the path that is watched.
func (w *Watch) Path() string { return w.key.path }

// SetIn reports whether the watch was set in this epoch of the connection.
func (w *Watch) SetIn(epoch uint64) bool { return w.epoch == epoch }

// C returns the connection's own channel: it yields the event to one receiver and is closed for all
// others. The receiver must pass what it received to Event. No goroutine forwards the event,
// because that would lose the order of the events of different nodes.
func (w *Watch) C() <-chan zk.Event { return w.raw }

// Event completes a receive from C and returns the event.
func (w *Watch) Event(event zk.Event, first bool) zk.Event {
	if first {
		w.event = event
		w.known.Store(true)
		w.settled.Done()
	}
	w.settled.Wait() // the receiver of the event is about to set it
	return w.event
}

// Fired reports, without waiting, whether the watch has fired.
func (w *Watch) Fired() (zk.Event, bool) {
	select {
	case event, first := <-w.raw:
		return w.Event(event, first), true
	default:
	}
	// The zk client sends the event to one receiver and then closes the channel for the others. In
	// between the event may be known already.
	if w.known.Load() {
		return w.event, true
	}
	return zk.Event{}, w.missed.Load()
}

// Miss takes note that the node has changed without an event: the server withholds that from a
// client that may not read the node at the moment, and the watch is gone. From now on Fired reports
// an event that says nothing, and the next caller sets another watch.
func (w *Watch) Miss() { w.missed.Store(true) }

// Gone reports whether an event says that the node was deleted. The end of the session or of the
// connection also produces an event, which says nothing about the node.
func Gone(event zk.Event) bool { return event.Type == zk.EventNodeDeleted || Released(event) }

// Released reports whether an event says that the node was deleted with its release marker.
func Released(event zk.Event) bool { return event.Type == zk.EventNodeCreated }

// watches has one watch per node for all waiters of the process, or a few if some waiters need more
// of it than others. The zk client cannot remove a watch from the server. So a watch that no waiter
// needs stays here until it fires, and the next waiter for the same node uses it.
type watches struct {
	mu    sync.Mutex
	at    map[watchKey]*Watch
	sweep int // size at which to delete those that are not usable
}

// watchKey includes the session, because a watch of the last session says nothing in the next. A
// bare watch has no data and no stat. A watch with a marker is bare and also fires by the marker.
type watchKey struct {
	session  int64
	path     string
	bare     bool
	marker   string // its path
	children bool   // see WatchChildren
}

// isReady reports whether the watch is set or err is.
func (w *Watch) isReady() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// usable reports whether a waiter can use the watch in this epoch. One that is not ready it can
// wait for.
func (w *Watch) usable(epoch uint64) bool {
	if !w.isReady() {
		return true
	}
	if w.err != nil || !w.SetIn(epoch) {
		return false
	}
	_, fired := w.Fired()
	return !fired
}

// Watch returns the process's watch on a node. It sets the watch if there is none. It returns
// zk.ErrNoNode if the node does not exist, and ErrOver if the session is over.
//
// It never returns a watch that is older than the connection. The zk client sets those again, but
// later than some of the requests that it sends; and for a node that is gone they report a
// deletion, whatever else happened to the node before.
//
// It uses GetW and never ExistsW: on a node that does not exist ExistsW leaves a watch that stays
// forever, because sequence numbers do not repeat.
func (c *Client) Watch(ctx context.Context, session int64, path string) (*Watch, error) {
	watches, err := c.watch(ctx, watchKey{session: session, path: path})
	if err == nil && watches[0] == nil {
		err = zk.ErrNoNode
	}
	if err != nil {
		return nil, err
	}
	return watches[0], nil
}

// WatchNode watches a node only for its deletion. It uses a watch that WatchNodes has set, if there
// is one.
func (c *Client) WatchNode(ctx context.Context, session int64, path string) (*Watch, error) {
	epoch := c.Epoch()
	c.watches.mu.Lock()
	w := c.watches.at[watchKey{session: session, path: path, bare: true}]
	c.watches.mu.Unlock()
	if w != nil && w.isReady() && w.usable(epoch) && c.In(session) {
		return w, nil
	}
	return c.Watch(ctx, session, path)
}

// WatchNodes watches many nodes only for their deletion: the watches have neither data nor stat,
// and end with the connection. It sends one request for each 128 KiB of paths. The watch of a node
// that does not exist is nil. The first node may be deleted with a release marker, see Removal;
// marker is "" if that does not matter.
//
// The server does not check READ permission for the nodes, but may drop the events of nodes that
// the client cannot read.
func (c *Client) WatchNodes(ctx context.Context, session int64, marker string, paths []string) ([]*Watch, error) {
	keys := make([]watchKey, len(paths))
	for i, path := range paths {
		keys[i] = watchKey{session: session, path: path, bare: true}
	}
	if marker != "" {
		keys[0].marker = paths[0] + marker
	}
	return c.watch(ctx, keys...)
}

// WatchChildren watches a directory: the watch fires when a child comes or goes, and when the
// directory itself does. It has no data, and no stat of a directory that does not exist. A listing
// that comes after it shows all that was done before the watch was set.
//
// On a directory that does not exist it uses ExistsW, which stays until the directory is made. That
// is one watch for each directory, because all callers share it and directories keep their names.
func (c *Client) WatchChildren(ctx context.Context, session int64, dir string) (*Watch, error) {
	watches, err := c.watch(ctx, watchKey{session: session, path: dir, children: true})
	if err != nil {
		return nil, err
	}
	return watches[0], nil
}

// watch returns the watches of keys in one session, nil for a node that does not exist.
func (c *Client) watch(ctx context.Context, keys ...watchKey) ([]*Watch, error) {
	for {
		if err := Ended(ctx); err != nil {
			return nil, err
		}
		epoch, sent := c.Epoch(), time.Now()
		all, news := c.watches.of(keys, epoch)
		switch {
		case len(news) == 0:
		case ctx.Done() == nil:
			c.set(news)
		default:
			go c.set(news)
		}
		served := true
		for i, w := range all {
			select {
			case <-w.ready:
			case <-ctx.Done():
				return nil, c.Unreached(ctx, Ended(ctx), sent)
			}
			switch {
			case w.err == zk.ErrNoNode:
				all[i] = nil
			case w.err != nil:
				return nil, w.err
			default:
				served = served && w.SetIn(epoch)
			}
		}
		if !c.In(keys[0].session) {
			return nil, ErrOver
		}
		if served {
			return all, nil
		}
		// The connection was replaced meanwhile.
	}
}

// of returns a watch for each key, which is of this epoch or not set yet. news are those that it
// created, which the caller must set.
func (w *watches) of(keys []watchKey, epoch uint64) (all, news []*Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all = make([]*Watch, len(keys))
	var ready chan struct{}
	for i, key := range keys {
		if known := w.at[key]; known != nil && known.usable(epoch) {
			all[i] = known
			continue
		}
		if ready == nil {
			ready = make(chan struct{})
		}
		one := newWatch(key, ready)
		w.put(one, epoch)
		all[i], news = one, append(news, one)
	}
	return all, news
}

// put adds a watch; caller holds mu.
func (w *watches) put(one *Watch, epoch uint64) {
	if len(w.at) >= w.sweep {
		for key, old := range w.at {
			if !old.usable(epoch) {
				delete(w.at, key)
			}
		}
		w.sweep = 2*len(w.at) + 64
	}
	if w.at == nil {
		w.at = make(map[watchKey]*Watch)
	}
	w.at[one.key] = one
}

// dropFailed removes the watches that could not be set.
func (w *watches) dropFailed(all []*Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range all {
		if one.err != nil && w.at[one.key] == one {
			delete(w.at, one.key)
		}
	}
}

// set sets watches that were made together: bare ones, with one request, or a single one.
func (c *Client) set(all []*Watch) {
	defer close(all[0].ready)
	if all[0].key.bare {
		c.setAll(all)
	} else {
		c.setOne(all[0])
	}
	c.watches.dropFailed(all)
}

// setOne sets one watch.
func (c *Client) setOne(w *Watch) {
	w.epoch, w.err = c.setting(w.key.session, func() (err error) {
		if w.key.children {
			w.Stat, w.raw, err = c.childrenW(w.key.path)
			return err
		}
		w.Data, w.Stat, w.raw, err = c.conn.GetW(w.key.path)
		return err
	})
}

// childrenW sets a watch on the children of a directory or, if it does not exist, on its creation.
func (c *Client) childrenW(dir string) (*zk.Stat, <-chan zk.Event, error) {
	for {
		_, stat, events, err := c.conn.ChildrenW(dir)
		if err != zk.ErrNoNode {
			return stat, events, err
		}
		exists, _, events, err := c.conn.ExistsW(dir)
		if err != nil || !exists {
			return nil, events, err
		}
		// The directory was made between the two requests.
	}
}

// setAll sets many watches, all bare, with one request.
func (c *Client) setAll(all []*Watch) {
	paths := make([]string, len(all))
	for i, w := range all {
		paths[i] = w.key.path
	}
	var events []<-chan zk.Event
	epoch, err := c.setting(all[0].key.session, func() (err error) {
		events, err = c.conn.WatchAll(paths, all[0].key.marker) // only the first may have a marker
		return err
	})
	for i, w := range all {
		w.epoch, w.err = epoch, err
		if err != nil {
			continue
		}
		if w.raw = events[i]; w.raw == nil {
			w.err = zk.ErrNoNode
		}
	}
}

// setting repeats the request that sets watches until the server answers, and returns the epoch in
// which it did. It continues after the caller that needed the watches first has given up, because
// other waiters may need them, and the next waiter uses them.
func (c *Client) setting(session int64, request func() error) (epoch uint64, err error) {
	for retry := c.retry(); ; {
		if err := retry.ready(context.Background(), session); err != nil {
			return 0, err
		}
		epoch := c.Epoch()
		err := request()
		if c.Epoch() != epoch {
			epoch = 0 // no epoch is 0
		}
		if o := outcomeOf(err); o == done || o == refused {
			if !c.In(session) {
				err = ErrOver
			}
			return epoch, err
		}
		if err := retry.again(context.Background(), "watch", err); err != nil {
			return 0, err
		}
	}
}
