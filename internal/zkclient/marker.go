package zkclient

import (
	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// RemoveWithMarker is RemoveNow for one node, which goes with a mark: another node, with
// mark appended to its name, that is made and deleted in the transaction that
// deletes the node. Nobody ever lists it, but whoever waits for its creation is
// told. Nothing else is told in one stroke with a deletion that only the owner of
// the node says, and nobody by accident.
//
// If the server refuses the mark, the node goes without.
func (c *Client) RemoveWithMarker(session int64, dir string, n znode.Node, marker string, acl []zk.ACL) error {
	path := dir + "/" + n.Name + marker
	nodes := []znode.Node{n}
	perhaps, err := c.delete(session, dir, nodes,
		// An ephemeral one, should a server ever leave it.
		&zk.CreateRequest{Path: path, Acl: acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: path, Version: -1})
	if outcomeOf(err) == refused && err != zk.ErrNoNode {
		if err = c.RemoveNow(session, dir, nodes); perhaps && err == zk.ErrNoNode {
			return nil // it had gone with its mark, and the reply was lost
		}
		return err
	}
	c.resetSequence(dir, nodes)
	return err
}
