package wire

import (
	"math"

	"github.com/go-zookeeper/zk"
)

// The packetConn keeps the watches of the locks, which end with it. All waiters of the process for
// a node share one. A watch that no waiter needs any more stays until it fires, because it takes a
// request to remove it from the server, and serves the next waiter. Drop removes a watch that may
// never fire.
//
// The packetConn sets watches in two ways. The zk client's own registry contains neither:
//   - WatchNodes sends SetWatches, a request for any number of nodes, by which clients set their
//     watches again after a reconnect. The server sends the event of a node that does not exist
//     ahead of the answer. The client does not see the answer.
//   - WatchData and WatchChildren have the client read the node. The packetConn sets the flag in
//     that request that asks the server for a watch.
//
// A release marker, mark for short, is a node that is created and deleted by the transaction that
// deletes the node it belongs to, so no client ever reads it. But a waiter that watches for its
// creation receives an event, and so knows that the owner deleted the node. Watching both takes no
// more requests than watching one. A server keeps a watch for the creation of a node until the node
// is created. So when a node is deleted without its mark, the packetConn removes that watch
// (RemoveWatches, in servers from 3.5 on; on older ones no more marks are watched).

// mostWatches bounds the bytes of the paths in one request, because the server's limit may be
// lowered, too.
const mostWatches = 128 << 10

// WatchNodes watches nodes for their deletion and for changes of their data, and waits for the
// server's answer. It sends one request for each 128 KiB of paths. The watch of a node that does
// not exist is nil. The error comes from the connection or the server.
//
// The server does not check READ permission for the nodes, but withholds events while the client
// may not read a node.
//
// The first node may have a release marker, if mark is not "". The event is then
// zk.EventNodeCreated, with the path of the marker.
func (c *Conn) WatchNodes(paths []string, mark string) ([]*Watch, error) {
	p, err := c.pastAuth()
	if err != nil {
		return nil, err
	}
	if c.noRemoveWatches.Load() {
		mark = ""
	}
	all := make([]*Watch, 0, len(paths))
	for len(all) < len(paths) {
		var batch []*Watch
		if all, batch, err = p.share(all, paths, mark); err != nil {
			return nil, err
		}
		if len(batch) > 0 {
			p.setWatches(batch)
		}
	}
	for i, w := range all {
		if all[i], err = w.await(); err != nil && err != zk.ErrNoNode {
			return nil, err
		}
	}
	return all, nil
}

// share appends to all the watches on those nodes that come next, as many as one request can set.
// The caller must set the new ones, which are the batch.
func (w *packetConn) share(all []*Watch, paths []string, mark string) (shared, batch []*Watch, err error) {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	if w.phase != running {
		return nil, nil, zk.ErrConnectionClosed
	}
	set, size := make(chan struct{}), 0
	for len(all) < len(paths) && size < mostWatches {
		path := paths[len(all)]
		if len(all) > 0 {
			mark = ""
		}
		watch := w.watches.find(path, mark, onNode)
		if watch == nil {
			watch = w.addWatch(path, mark, onNode, set)
			batch, size = append(batch, watch), size+len(path)
		}
		all = append(all, watch)
	}
	return all, batch, nil
}

// setWatches sends the request that sets a batch.
func (w *packetConn) setWatches(batch []*Watch) {
	var paths, marks []string // marks are nodes to be created
	for _, watch := range batch {
		paths = append(paths, watch.Path)
		if watch.mark != "" {
			marks = append(marks, watch.mark)
		}
	}
	// The zxid says from which on the client wants changes: none, because the watches are new.
	body := encode(nil, int64(math.MaxInt64), paths, marks, []string(nil))
	w.send(opSetWatches, body, nil, func(code int32) {
		w.watches.setOver(batch, codeError(code))
		if _, fired := batch[0].Fired(); fired && len(marks) > 0 {
			// The server may have set the watch on the mark only after this event, which then came
			// from an earlier watch.
			go w.unwatch(marks[0])
		}
	})
}

// WatchData reads a node and watches it as WatchNodes does.
//
// It does not watch for the creation of a node that does not exist: that watch would stay forever,
// because sequence numbers do not repeat.
func (c *Conn) WatchData(path string) (*Watch, error) {
	return c.watchReading(path, c.readData, onData)
}

// WatchNode is WatchData for callers that need no data: a watch of WatchNodes does as well.
func (c *Conn) WatchNode(path string) (*Watch, error) {
	return c.watchReading(path, c.readData, onData, onNode)
}

func (c *Conn) readData(w *Watch) (err error) {
	w.Data, w.Stat, err = c.Get(w.Path)
	return err
}

// WatchChildren watches a directory: the watch fires when a child is created or deleted, and when
// the directory is. On a directory that does not exist the watch stays until it is created. That is
// one watch for each directory, because directories keep their names.
func (c *Conn) WatchChildren(dir string) (*Watch, error) {
	return c.watchReading(dir, c.readChildren, onChildren)
}

func (c *Conn) readChildren(w *Watch) error {
	for {
		_, stat, err := c.Children(w.Path)
		if err != zk.ErrNoNode {
			w.Stat = stat
			return err
		}
		if exists, _, err := c.Exists(w.Path); err != nil || !exists {
			return err
		}
		// The directory was created between the two requests.
	}
}

// watchReading returns a watch of one of these kinds on a node. If there is none, read sets one of
// the first kind. The watch is recorded before that, because its event may come right behind the
// answer. An event of an earlier watch on the node also fires it.
func (c *Conn) watchReading(path string, read func(*Watch) error, kinds ...watchKind) (*Watch, error) {
	c.mu.Lock()
	p := c.current
	if p == nil || p.phase != running {
		c.mu.Unlock()
		return nil, zk.ErrConnectionClosed
	}
	if w := p.watches.find(path, "", kinds...); w != nil {
		c.mu.Unlock()
		return w.await()
	}
	w := p.addWatch(path, "", kinds[0], make(chan struct{}))
	c.mu.Unlock()

	err := read(w)
	c.mu.Lock()
	if p.phase != running { // the answer may have come on the next connection
		err = zk.ErrConnectionClosed
	}
	p.watches.setOver([]*Watch{w}, err)
	c.mu.Unlock()
	return w.await()
}

// pastAuth returns the current packetConn once the client has sent a request other than credentials
// on it. Before that the client may still be about to send the credentials, which must be first:
// some servers refuse all other requests without them.
func (c *Conn) pastAuth() (*packetConn, error) {
	for range 2 {
		c.mu.Lock()
		w := c.current
		past := w != nil && w.pastAuth
		c.mu.Unlock()
		if past {
			return w, nil
		}
		if err := c.ping(); err != nil {
			return nil, err
		}
	}
	return nil, zk.ErrConnectionClosed // reconnected meanwhile
}

// Drop removes a watch for which no goroutine waits, and reports whether the watch has ended. It
// fires the watch as Miss does: whoever uses it later sets another. A server before 3.5 keeps the
// watch until it fires, and so does any server if the process has another watch on the node. Drop
// is not for a watch with a release marker.
func (w *Watch) Drop() bool {
	w.conn.client.mu.Lock()
	defer w.conn.client.mu.Unlock()
	if len(w.bells) > 0 {
		return false
	}
	if w.event.Load() == nil {
		w.miss()
		go w.conn.unwatch(w.Path)
	}
	return true
}
