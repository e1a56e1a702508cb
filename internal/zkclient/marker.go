package zkclient

import (
	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// RemoveWithMarker is RemoveNow for one node, with a release marker: another node, with marker
// appended to its name, which the transaction that deletes the node creates and deletes. The marker
// never appears in a listing, but watches for its creation fire. The marker is the only signal that
// is delivered atomically with the deletion, is sent only by the node's owner, and cannot be sent
// by accident.
//
// If the server refuses the marker, RemoveWithMarker deletes the node without it.
func (c *Client) RemoveWithMarker(session int64, dir string, n znode.Node, marker string, acl []zk.ACL) error {
	path := dir + "/" + n.Name + marker
	nodes := []znode.Node{n}
	perhaps, err := c.delete(session, dir, nodes,
		// Ephemeral, so that the session's end deletes it if a server ever leaves it.
		&zk.CreateRequest{Path: path, Acl: acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: path, Version: -1})
	if outcomeOf(err) == refused && err != zk.ErrNoNode {
		if err = c.RemoveNow(session, dir, nodes); perhaps && err == zk.ErrNoNode {
			return nil // an earlier try, whose reply was lost, deleted the node with its marker
		}
		return err
	}
	c.resetSequence(dir, nodes)
	return err
}
