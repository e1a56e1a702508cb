package zkclient

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// AnySession means whichever session is current: the exact name of the node, with its id and
// sequence number, proves that the node is ours.
const AnySession int64 = 0

// Remove starts to delete nodes of a session. If the answer to a delete is lost, it repeats the
// delete, until the nodes are gone, the session is over or the connection is closed. The channel
// then yields nil if it deleted the nodes, zk.ErrNoNode if one of them was gone before, ErrOver if
// the session ended (and the nodes with it), ErrClosed, or the server's refusal.
func (c *Client) Remove(session int64, dir string, nodes []znode.Node) <-chan error {
	result := make(chan error, 1) // buffered: the caller may not receive it
	go func() { result <- c.RemoveNow(session, dir, nodes) }()
	return result
}

// RemoveNow is Remove, but waits for the result, however long that takes.
func (c *Client) RemoveNow(session int64, dir string, nodes []znode.Node) error {
	err := c.remove(session, dir, nodes)
	c.resetSequence(dir, nodes)
	return err
}

// resetSequence deletes the directory if its sequence numbers are near the limit. The delete
// succeeds only if no node is queued. The next create then makes a new directory, whose counter
// starts at 0.
func (c *Client) resetSequence(dir string, nodes []znode.Node) {
	if slices.ContainsFunc(nodes, znode.Node.NearSequenceLimit) {
		_ = c.conn.Delete(dir, -1)
	}
}

func (c *Client) remove(session int64, dir string, nodes []znode.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	_, err := c.delete(session, dir, nodes)
	perhaps := err == errPerhaps
	if perhaps {
		err = zk.ErrNoNode
	}
	if outcomeOf(err) != refused || len(nodes) == 1 {
		return err
	}
	// Another client deleted one of the nodes, or the server refuses to delete it, so the
	// transaction failed for all of them. The other nodes must not stay queued.
	var result error
	gone := 0
	if err == zk.ErrNoNode {
		result = err
	}
	for i := range nodes {
		already, err := c.delete(session, dir, nodes[i:i+1])
		if err == zk.ErrNoNode || err == nil && already {
			gone++
		}
		switch {
		case err == nil:
		case outcomeOf(err) != refused:
			return err
		case result == nil || result == zk.ErrNoNode:
			result = err
		}
	}
	if perhaps && gone == len(nodes) {
		return nil
	}
	return result
}

// errPerhaps means that one of several nodes is gone, after a try whose answer was lost. Either
// that try deleted all of them, or it did nothing and the others still exist.
var errPerhaps = errors.New("perhaps deleted")

// delete deletes nodes in one transaction, after the operations in before. perhaps means that the
// server refused, but an earlier try, whose answer was lost, may have succeeded.
func (c *Client) delete(session int64, dir string, nodes []znode.Node, before ...any) (perhaps bool, err error) {
	ops := before
	for _, n := range nodes {
		ops = append(ops, &zk.DeleteRequest{Path: dir + "/" + n.Name, Version: -1})
	}
	maybe := false // an earlier try may have succeeded
	for retry := c.retry(); ; {
		if err := c.connected(context.Background()); err != nil {
			return false, err
		}
		if session != AnySession && !c.In(session) {
			return false, ErrOver
		}
		var err error
		if len(ops) == 1 {
			err = c.conn.Delete(dir+"/"+nodes[0].Name, -1)
		} else {
			_, err = c.multi(ops...)
		}
		switch outcomeOf(err) {
		case done:
			return false, nil
		case refused:
			return maybe, c.refusal(session, len(nodes), maybe, err)
		case unknown:
			maybe = true
		}
		if err := retry.again(context.Background(), "delete", err); err != nil {
			return false, err
		}
	}
}

// refusal returns what it means that the server refused to delete so many nodes.
func (c *Client) refusal(session int64, nodes int, maybe bool, err error) error {
	switch {
	case err != zk.ErrNoNode:
		return err
	case session != AnySession && !c.In(session):
		// The zk client sent the request in the next session; the end of the old one has deleted
		// the node.
		return ErrOver
	case maybe && nodes > 1:
		return errPerhaps
	case maybe:
		return nil
	}
	return err
}
