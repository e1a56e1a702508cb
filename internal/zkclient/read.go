package zkclient

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// Children lists a directory. It retries until a server answers. It returns ErrOver if the answer
// belongs to another session.
func (c *Client) Children(ctx context.Context, session int64, dir string) ([]string, *zk.Stat, error) {
	type listing struct {
		children []string
		stat     *zk.Stat
	}
	l, err := awaitIn(ctx, c, session, "list", func() (listing, error) {
		children, stat, err := c.conn.Children(dir)
		return listing{children, stat}, err
	})
	return l.children, l.stat, err
}

// Stat returns the Stat of a node, which takes no right. It retries until a server answers. It
// returns zk.ErrNoNode if the node does not exist, and ErrOver if the answer belongs to another
// session.
func (c *Client) Stat(ctx context.Context, session int64, path string) (*zk.Stat, error) {
	return awaitIn(ctx, c, session, "read", func() (*zk.Stat, error) {
		found, stat, err := c.conn.Exists(path)
		if err == nil && !found {
			err = zk.ErrNoNode
		}
		return stat, err
	})
}

// Get reads a node. It retries until a server answers.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	type node struct {
		data []byte
		stat *zk.Stat
	}
	n, err := await(ctx, c, "read", func() (node, error) {
		data, stat, err := c.conn.Get(path)
		return node{data, stat}, err
	})
	return n.data, n.stat, err
}

// Set writes a node's data. It retries until a server answers. If an answer is lost, it writes
// again, so the server may write twice.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) error {
	_, err := await(ctx, c, "write", func() (*zk.Stat, error) { return c.conn.Set(path, data, version) })
	return err
}

// Check asks the quorum whether nodes exist in the given versions (-1: any). It retries until a
// server answers. If a node does not, Check returns its index and zk.ErrNoNode, zk.ErrBadVersion or
// zk.ErrNoAuth; otherwise the index is NotDone. It returns ErrOver if the answer belongs to another
// session.
func (c *Client) Check(ctx context.Context, session int64, checks ...*zk.CheckVersionRequest) (failed int, err error) {
	ops := make([]any, len(checks))
	for i, check := range checks {
		ops[i] = check
	}
	answer, err := awaitIn(ctx, c, session, "check", func() (results, error) { return c.multi(ops...) })
	if answer.replies == nil { // no server has answered
		return NotDone, err
	}
	return answer.failed, err
}

// Barrier sends an empty quorum request, which brings a server that lags behind up to date. A later
// read on the same connection shows all changes that were committed before the call. Barrier
// returns ErrOver if the answer belongs to another session.
func (c *Client) Barrier(ctx context.Context, session int64) error {
	if _, err := c.Check(ctx, session, barrier); !proves(err) {
		return err
	}
	return nil
}

// CatchUp is Barrier in whichever session is current. It returns that session: the server of the
// next session may lag behind again.
func (c *Client) CatchUp(ctx context.Context) (session int64, err error) {
	for {
		if session, err = c.Session(ctx); err == nil {
			err = c.Barrier(ctx, session)
		}
		if err != ErrOver {
			return session, err
		}
	}
}

// Refresh waits until the quorum answers and the session is known to be alive. After a pause of the
// process, the last answers may be too old for that.
func (c *Client) Refresh(ctx context.Context, session int64) error {
	for {
		if err := c.Barrier(ctx, session); err != nil {
			return err
		}
		if c.conn.Alive(session) {
			return nil
		}
		// A quorum request that is sent 9T/32 later proves the packet that was just answered.
		timer := time.NewTimer(c.conn.Timeout() / 8)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Ended(ctx)
		}
	}
}

// Replace replaces an ephemeral node with a new node in one transaction, so no server ever shows
// the directory without both. The transaction writes to the old node first, so data watches on it
// fire with a change. A watch that fires with a deletion thus means that no node has replaced the
// deleted node. If the answer is lost, Replace checks which of the two nodes exists. It returns
// zk.ErrNoNode if the old node was gone, ErrOver, ErrClosed or the server's refusal. It takes no
// context, because its caller must know the result.
func (c *Client) Replace(session int64, dir string, old, new znode.Node, data []byte, acl []zk.ACL) error {
	ops := []any{
		&zk.SetDataRequest{Path: dir + "/" + old.Name, Version: -1}, // without data: twice the largest data would not fit into one request
		&zk.CreateRequest{Path: dir + "/" + new.Name, Data: data, Acl: acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: dir + "/" + old.Name, Version: -1},
	}
	for retry := c.retry(); ; {
		if err := retry.ready(context.Background(), session); err != nil {
			return err
		}
		_, err := c.multi(ops...)
		switch outcomeOf(err) {
		case done:
			if !c.In(session) {
				c.Remove(AnySession, Removal{Dir: dir, Nodes: []znode.Node{new}})
				return ErrOver
			}
			return nil
		case refused:
			return c.refusal(session, err)
		case unknown:
			// The quorum orders a request on this connection behind the transaction.
			switch _, err := c.Check(context.Background(), session, &zk.CheckVersionRequest{Path: dir + "/" + new.Name, Version: -1}); err {
			case nil, zk.ErrNoAuth: // it exists: a server looks for a node before it looks at its ACL
				return nil
			case zk.ErrNoNode: // it was not done: again
			default:
				return err
			}
		}
		if err := retry.again(context.Background(), "replace", err); err != nil {
			return err
		}
	}
}
