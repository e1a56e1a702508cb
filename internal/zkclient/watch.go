package zkclient

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
)

// A Watch is a watch on a node. All waiters of the process share it.
type Watch = wire.Watch

// Gone reports whether an event means that the node was deleted. The end of the connection also
// fires a watch, and means nothing for the node.
func Gone(event zk.Event) bool { return event.Type == zk.EventNodeDeleted || Released(event) }

// Released reports whether an event means that the node was deleted with its release marker.
func Released(event zk.Event) bool { return event.Type == zk.EventNodeCreated }

// Watch reads a node and watches it, on the current connection. It returns zk.ErrNoNode if the node
// does not exist, and ErrOver if the session is over.
func (c *Client) Watch(ctx context.Context, session int64, path string) (*Watch, error) {
	return await(ctx, c, session, "watch", func() (*Watch, error) { return c.conn.WatchData(ctx, session, path) })
}

// WatchNode watches a node for its deletion. If WatchNodes has set a watch on it, WatchNode returns
// that watch.
func (c *Client) WatchNode(ctx context.Context, session int64, path string) (*Watch, error) {
	return await(ctx, c, session, "watch", func() (*Watch, error) { return c.conn.WatchNode(ctx, session, path) })
}

// WatchNodes watches many nodes for their deletion. The watches have neither data nor stat. The
// watch of a node that does not exist is nil. If marker is not "", the watch on the first node also
// fires by its release marker, see Removal. The server sets a watch also if the client may not read
// the node. It then withholds the event.
func (c *Client) WatchNodes(ctx context.Context, session int64, marker string, paths []string) ([]*Watch, error) {
	if marker != "" {
		marker = paths[0] + marker
	}
	return await(ctx, c, session, "watch", func() ([]*Watch, error) { return c.conn.WatchNodes(ctx, session, paths, marker) })
}

// WatchChildren watches a directory for children that are created or deleted, and for its own
// creation and deletion. A later listing shows all changes that were made before the server set the
// watch.
func (c *Client) WatchChildren(ctx context.Context, session int64, dir string) (*Watch, error) {
	return await(ctx, c, session, "watch", func() (*Watch, error) { return c.conn.WatchChildren(ctx, session, dir) })
}
