package zkclient

import (
	"context"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// A Removal describes nodes to delete in one directory.
type Removal struct {
	Dir   string
	Nodes []znode.Node
	// Marker is "", or the end of the name of a release marker. The transaction that deletes the
	// first of the nodes creates the marker, with ACL, and deletes it. The marker never appears in
	// a listing, but watches for its creation fire. So waiters are notified, atomically with the
	// deletion, that the owner of the node has deleted it.
	Marker string
	ACL    []zk.ACL
}

// Remove starts to delete nodes of a session, in one transaction. If the answer is lost, it repeats
// the delete until the nodes are gone, the session is over or the connection is closed. The channel
// then yields nil if Remove has deleted the nodes, zk.ErrNoNode if one of them was gone before,
// ErrOver if the session (and with it the nodes) has ended, ErrClosed, or the server's refusal. If
// the server refuses a marker, Remove deletes the nodes without it. If it refuses to delete a node,
// the delete is repeated later, as long as the session lives.
func (c *Client) Remove(session int64, all ...Removal) <-chan error {
	result := make(chan error, 1) // buffered: the caller may not receive it
	go func() {
		result <- c.RemoveNow(session, all...)
		close(result)
	}()
	return result
}

// RemoveNow is Remove, but waits for the result.
func (c *Client) RemoveNow(session int64, all ...Removal) error {
	var paths []string
	var markers []any
	for _, r := range all {
		for _, n := range r.Nodes {
			paths = append(paths, r.Dir+"/"+n.Name)
		}
		if r.Marker != "" {
			marker := r.Dir + "/" + r.Nodes[0].Name + r.Marker
			markers = append(markers,
				// Ephemeral, so that the session's end deletes it if a server ever leaves it.
				&zk.CreateRequest{Path: marker, Acl: r.ACL, Flags: zk.FlagEphemeral},
				&zk.DeleteRequest{Path: marker, Version: -1})
		}
	}
	if Size(deletes(paths, markers)) > MaxRequest {
		markers = nil // so the waiters behind list
	}
	err := c.remove(session, paths, markers)
	for _, r := range all {
		if slices.ContainsFunc(r.Nodes, znode.Node.NearSequenceLimit) {
			// The delete succeeds only if no node is queued. The next create then makes a new
			// directory, whose counter starts at 0. A directory with data is another program's.
			if found, err := c.conn.Ask(context.Background(), AnySession, wire.Exists(r.Dir)); err == nil && found.Stat.DataLength == 0 {
				_, _ = c.conn.Ask(context.Background(), AnySession, wire.Delete(r.Dir, found.Stat.Version))
			}
		}
	}
	return err
}

func (c *Client) remove(session int64, paths []string, markers []any) error {
	if len(paths) == 0 {
		return nil
	}
	perhaps, err := c.delete(session, paths, markers...)
	if len(markers) > 0 && outcomeOf(err) == refused {
		// Perhaps the server refuses a marker. An earlier try, whose reply was lost, may have succeeded.
		before := perhaps
		perhaps, err = c.delete(session, paths)
		perhaps = perhaps || before
	}
	if perhaps && err == zk.ErrNoNode && len(paths) == 1 {
		return nil
	}
	if len(paths) == 1 {
		c.deleteLater(session, paths[0], err, firstWait)
		return err
	}
	if outcomeOf(err) != refused {
		return err
	}
	// Another client has deleted one of the nodes, or the server refuses to delete it, so the
	// transaction failed for all of them. The other nodes must not remain queued.
	var result error
	gone := 0
	if err == zk.ErrNoNode {
		result = err
	}
	for i := range paths {
		_, err := c.delete(session, paths[i:i+1])
		c.deleteLater(session, paths[i], err, firstWait)
		if err == zk.ErrNoNode {
			gone++
		}
		if err != nil && (result == nil || result == zk.ErrNoNode) {
			result = err
		}
	}
	if perhaps && gone == len(paths) {
		return nil
	}
	return result
}

// deleteLater deletes a node later if err is a refusal to delete it.
func (c *Client) deleteLater(session int64, path string, err error, pause time.Duration) {
	c.ifRefused(session, "delete", path, err, pause, func(pause time.Duration) {
		_, err := c.delete(session, []string{path})
		c.deleteLater(session, path, err, pause)
	})
}

// delete deletes nodes in one transaction, behind the operations in before. perhaps means that the
// server has refused, but an earlier try, whose answer was lost, may have succeeded.
func (c *Client) delete(session int64, paths []string, before ...any) (perhaps bool, err error) {
	ops := deletes(paths, before)
	request := wire.Delete(paths[0], -1)
	if len(ops) > 1 {
		request = wire.Multi(ops...)
	}
	for a := c.attempt(context.Background(), session, "delete"); ; {
		if err := a.next(); err != nil {
			return false, err
		}
		_, err := c.conn.Ask(context.Background(), session, request)
		switch a.outcome(err) {
		case done:
			return false, nil
		case refused:
			return perhaps, err
		case unknown:
			perhaps = true
		}
	}
}

// deletes returns the operations in before, and behind them a delete of each path.
func deletes(paths []string, before []any) []any {
	for _, path := range paths {
		before = append(before, &zk.DeleteRequest{Path: path, Version: -1})
	}
	return before
}
