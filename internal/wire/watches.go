package wire

import (
	"context"
	"math"

	"github.com/go-zookeeper/zk"
)

// The packetConn keeps the watches of the locks, which end with the connection. A watch remains
// until it fires, also if no waiter needs it: it serves the next waiter, and to remove it takes a
// request. Drop removes a watch that may never fire.
//
// The packetConn sets watches in two ways:
//   - WatchNodes sends SetWatches. Clients use that request, for any number of nodes, to set their
//     watches again after a reconnect. For a node that does not exist, the server sends the event
//     of a deletion ahead of the answer.
//   - WatchData and WatchChildren read the node, by a request that also asks for a watch.
//
// A release marker is a second node. The transaction that deletes a node creates and deletes its
// marker, so no client ever reads the marker. A waiter that watches for the creation of the marker
// receives an event if the owner has deleted the node. One request sets both watches. A server
// keeps a watch for a creation until the node is created. So if the node is deleted without its
// marker, the packetConn removes the watch on the marker (RemoveWatches).

// mostWatches bounds the bytes of the paths in one request: far below the server's limit of 1 MiB,
// which may be configured lower.
const mostWatches = 128 << 10

// WatchNodes watches nodes for their deletion and for changes of their data. It returns when the
// server has set the watches, by one request for each 128 KiB of paths. The watch of a node that
// does not exist is nil. For the error see Ask.
//
// The server sets a watch also if the client may not read the node. It then withholds the event.
//
// If marker is not "", it is the release marker of the first node. Its creation fires the watch
// with zk.EventNodeCreated and the path of the marker.
func (c *Conn) WatchNodes(ctx context.Context, session int64, paths []string, marker string) ([]*Watch, error) {
	c.mu.Lock()
	p, err := c.in(session)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	all := p.watchNodes(paths, marker)
	c.mu.Unlock()
	for i, w := range all {
		if all[i], err = w.await(ctx); err != nil && err != zk.ErrNoNode {
			return nil, err
		}
	}
	return all, nil
}

// watchNodes returns the watches on nodes, and sends a request when enough of them are new, and for
// the rest. Caller holds conn.mu, as of setWatches, readWatched and watchMissing.
func (p *packetConn) watchNodes(paths []string, marker string) (all []*Watch) {
	var batch []*Watch
	size := 0
	for i, path := range paths {
		w := p.watches.find(path, marker, onNode)
		if w == nil {
			w = p.addWatch(path, marker, onNode)
			batch, size = append(batch, w), size+len(path)
		}
		all, marker = append(all, w), ""
		if len(batch) > 0 && (size >= mostWatches || i == len(paths)-1) {
			p.setWatches(batch)
			batch, size = nil, 0
		}
	}
	return all
}

// setWatches sends the request that sets a batch.
func (p *packetConn) setWatches(batch []*Watch) {
	var paths, markers []string
	for _, watch := range batch {
		paths = append(paths, watch.Path)
		if watch.marker != "" {
			markers = append(markers, watch.marker)
		}
	}
	// The server fires watches on nodes that have changed after the zxid in the request. These
	// watches are new, so the zxid is the largest.
	body := encode(nil, int64(math.MaxInt64), paths, markers, []string(nil))
	p.enqueue(outgoing{Request: Request{opSetWatches, body}, answered: func(_ Reply, err error) {
		p.watches.setOver(batch, err)
		if _, fired := batch[0].Fired(); fired && len(markers) > 0 {
			// The event came from an earlier watch on the node, and the server may have set the
			// watch on the marker after it.
			p.unwatch(markers[0])
		}
	}})
}

// WatchData reads a node and watches it as WatchNodes does. It returns zk.ErrNoNode if the node
// does not exist, and then sets no watch: sequence numbers do not repeat, so it would remain
// forever.
func (c *Conn) WatchData(ctx context.Context, session int64, path string) (*Watch, error) {
	return c.watchReading(ctx, session, path, onData)
}

// WatchNode is WatchData for callers that need no data. It also returns a watch of WatchNodes.
func (c *Conn) WatchNode(ctx context.Context, session int64, path string) (*Watch, error) {
	return c.watchReading(ctx, session, path, onData, onNode)
}

// WatchChildren watches a directory. The watch fires when a child is created or deleted, and when
// the directory itself is. If the directory does not exist, the watch remains until it is created:
// one watch for each directory, because directories keep their names.
func (c *Conn) WatchChildren(ctx context.Context, session int64, dir string) (*Watch, error) {
	return c.watchReading(ctx, session, dir, onChildren)
}

// watchReading returns a watch of one of these kinds on a node. If there is none, it sets a watch
// of the first kind. It records the watch before it sends the request, because the event of the
// watch may follow right behind the answer. An event of an earlier watch on the node fires the new
// watch, too.
func (c *Conn) watchReading(ctx context.Context, session int64, path string, kinds ...watchKind) (*Watch, error) {
	c.mu.Lock()
	p, err := c.in(session)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	w := p.watches.find(path, "", kinds...)
	if w == nil {
		w = p.addWatch(path, "", kinds[0])
		p.readWatched(w)
	}
	c.mu.Unlock()
	return w.await(ctx)
}

// readWatched sends the request that reads the node of a watch and sets the watch.
func (p *packetConn) readWatched(w *Watch) {
	op := opGetData
	if w.kind == onChildren {
		op = opGetChildren2
	}
	p.enqueue(outgoing{Request: read(op, w.Path, true), answered: func(r Reply, err error) {
		if err == zk.ErrNoNode && w.kind == onChildren {
			p.watchMissing(w)
			return
		}
		if w.Data, w.Stat = r.Data, r.Stat; len(r.Children) == 1 {
			w.Only = r.Children[0]
		}
		p.watches.setOver([]*Watch{w}, err)
	}})
}

// watchMissing sets the watch on a directory that does not exist.
func (p *packetConn) watchMissing(w *Watch) {
	p.enqueue(outgoing{Request: read(opExists, w.Path, true), answered: func(_ Reply, err error) {
		switch err {
		case nil: // it was created between the two requests
			p.readWatched(w)
		case zk.ErrNoNode:
			p.watches.setOver([]*Watch{w}, nil)
		default:
			p.watches.setOver([]*Watch{w}, err)
		}
	}})
}

// Drop removes the watch, also from the server, unless a goroutine waits for it. It fires the watch
// as Miss does, so the next caller sets another. It reports whether the watch has fired, also
// before the call. The server keeps its watch if this process has another watch on the node. If the
// program has set a watch on the node through its Client, the server removes that watch, too.
// The watch must not have a release marker.
func (w *Watch) Drop() bool {
	w.on.conn.mu.Lock()
	defer w.on.conn.mu.Unlock()
	if len(w.bells) > 0 {
		return false
	}
	if w.event.Load() == nil {
		w.miss()
		w.on.unwatch(w.Path)
	}
	return true
}
