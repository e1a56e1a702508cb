package zkclient

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
)

// Watch is a watch on a node, which all waiters of the process share.
type Watch = wire.Watch

// Gone reports whether an event says that the node was deleted. The end of the connection also
// fires a watch, and says nothing about the node.
func Gone(event zk.Event) bool { return event.Type == zk.EventNodeDeleted || Released(event) }

// Released reports whether an event says that the node was deleted with its release marker.
func Released(event zk.Event) bool { return event.Type == zk.EventNodeCreated }

// Watch reads a node and watches it, on the present connection. It returns zk.ErrNoNode if the node
// does not exist, and ErrOver if the session is over.
func (c *Client) Watch(ctx context.Context, session int64, path string) (*Watch, error) {
	return awaitIn(ctx, c, session, "watch", func() (*Watch, error) { return c.conn.WatchData(path) })
}

// WatchNode watches a node for its deletion. It uses a watch that WatchNodes has set, if there is
// one.
func (c *Client) WatchNode(ctx context.Context, session int64, path string) (*Watch, error) {
	return awaitIn(ctx, c, session, "watch", func() (*Watch, error) { return c.conn.WatchNode(path) })
}

// WatchNodes watches many nodes for their deletion: the watches have neither data nor stat. The
// watch of a node that does not exist is nil. The first node may be deleted with a release marker,
// see Removal; marker is "" if that does not matter. The server does not check READ permission for
// the nodes, but withholds the events of nodes that the client may not read.
func (c *Client) WatchNodes(ctx context.Context, session int64, marker string, paths []string) ([]*Watch, error) {
	if marker != "" {
		marker = paths[0] + marker
	}
	return awaitIn(ctx, c, session, "watch", func() ([]*Watch, error) { return c.conn.WatchNodes(paths, marker) })
}

// WatchChildren watches a directory for children that come or go, and for its own creation and
// deletion. A listing that comes after it shows all that was done before the watch was set.
func (c *Client) WatchChildren(ctx context.Context, session int64, dir string) (*Watch, error) {
	return awaitIn(ctx, c, session, "watch", func() (*Watch, error) { return c.conn.WatchChildren(dir) })
}
