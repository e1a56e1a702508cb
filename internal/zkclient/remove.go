package zkclient

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// AnySession stands for whichever session there is: the node's exact name, with
// its id and number, is proof enough that it is ours.
const AnySession int64 = 0

// Remove starts to delete nodes of a session. A delete whose answer was lost is
// repeated, until the nodes are gone, the session is over or the connection is
// closed. The channel then yields nil if the nodes were deleted, zk.ErrNoNode if
// one had been gone before we asked, ErrOver if the session ended (and the nodes
// with it), ErrClosed, or the server's refusal.
func (c *Client) Remove(session int64, dir string, nodes []znode.Node) <-chan error {
	result := make(chan error, 1) // nobody may be left to receive it
	go func() { result <- c.RemoveNow(session, dir, nodes) }()
	return result
}

// RemoveNow is Remove for those who wait for the result whatever comes.
func (c *Client) RemoveNow(session int64, dir string, nodes []znode.Node) error {
	err := c.remove(session, dir, nodes)
	c.resetSequence(dir, nodes)
	return err
}

// resetSequence deletes the directory if its numbers are worn. It succeeds only when nobody
// is in line, and then the next one starts the count anew.
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
	// One of them had been deleted by somebody else, or cannot be deleted, so the
	// transaction failed for all of them. The rest must not stay in line.
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

// errPerhaps: of several nodes one is gone, after a try whose answer was lost. If
// that one did it, all are gone; or it did nothing, and the others are there.
var errPerhaps = errors.New("perhaps deleted")

// delete deletes nodes in one transaction, behind other operations. perhaps: the
// server refused, and an earlier try, whose answer was lost, may have done it.
func (c *Client) delete(session int64, dir string, nodes []znode.Node, before ...any) (perhaps bool, err error) {
	ops := before
	for _, n := range nodes {
		ops = append(ops, &zk.DeleteRequest{Path: dir + "/" + n.Name, Version: -1})
	}
	maybe := false // an earlier try may have done it
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

// refusal says what it means that the server has refused to delete so many nodes.
func (c *Client) refusal(session int64, nodes int, maybe bool, err error) error {
	switch {
	case err != zk.ErrNoNode:
		return err
	case session != AnySession && !c.In(session):
		// The request was carried over into the next session; the last one
		// has taken the node with it.
		return ErrOver
	case maybe && nodes > 1:
		return errPerhaps
	case maybe:
		return nil
	}
	return err
}
