package zkclient

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// Children lists a directory, asking until it is answered.
// It returns ErrOver if the answer did not come in the given session.
func (c *Client) Children(ctx context.Context, session int64, dir string) ([]string, *zk.Stat, error) {
	type listing struct {
		children []string
		stat     *zk.Stat
	}
	l, err := await(ctx, c, "list", func() (listing, error) {
		children, stat, err := c.conn.Children(dir)
		return listing{children, stat}, err
	})
	if session != AnySession && !c.In(session) && Ended(ctx) == nil {
		return nil, nil, ErrOver
	}
	return l.children, l.stat, err
}

// Get reads a node, asking until it is answered.
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

// Set writes a node's data, asking until it is answered. A write whose answer
// was lost is repeated, so it may happen twice.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) error {
	_, err := await(ctx, c, "write", func() (*zk.Stat, error) { return c.conn.Set(path, data, version) })
	return err
}

// Check asks the quorum, once a connection answers, whether nodes exist in the
// given versions (-1: any). The error is zk.ErrNoNode or zk.ErrBadVersion of the
// first that does not; ErrOver if the answer did not come in the given session.
func (c *Client) Check(ctx context.Context, session int64, checks ...*zk.CheckVersionRequest) error {
	ops := make([]any, len(checks))
	for i, check := range checks {
		ops[i] = check
	}
	_, err := await(ctx, c, "check", func() ([]zk.MultiResponse, error) { return c.quorumCheck(session, ops...) })
	if !c.In(session) && Ended(ctx) == nil {
		return ErrOver
	}
	return err
}

// Refresh waits until the quorum answers and the session is known to live: for a
// process that was stopped for a while the answers it has may be older than its
// session.
func (c *Client) Refresh(ctx context.Context, session int64) error {
	for {
		if err := c.Check(ctx, session, barrier); !proves(err, true) {
			return err
		}
		if c.link.Alive(session) {
			return nil
		}
		// What was answered just now counts once a quorum request is answered
		// that is sent that much later, see liveness.Link.Proved.
		timer := time.NewTimer(c.link.HeartbeatAfter() / 2)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Ended(ctx)
		}
	}
}

// Replace puts a new node in the place of an old one, both ephemeral, in one
// transaction: nobody sees the directory with neither. It writes into the old one
// first: whoever watches that is told of a change, so a deletion that a watch
// reports is one behind which nothing stands in the place. When the answer is lost it finds out which of the two exists. It returns zk.ErrNoNode
// if the old one was gone, ErrOver, ErrClosed or the server's refusal. It must
// know, so it takes no context.
func (c *Client) Replace(session int64, dir string, old, new znode.Node, data []byte, acl []zk.ACL) error {
	ops := []any{
		&zk.SetDataRequest{Path: dir + "/" + old.Name, Version: -1}, // without data: two times the most that fits does not
		&zk.CreateRequest{Path: dir + "/" + new.Name, Data: data, Acl: acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: dir + "/" + old.Name, Version: -1},
	}
	for retry := c.retry(); ; {
		if err := c.connected(context.Background()); err != nil {
			return err
		}
		if !c.In(session) {
			return ErrOver
		}
		sent := time.Now()
		_, err := c.multi(ops...)
		c.noteQuorumReply(session, sent, err, true)
		switch outcomeOf(err) {
		case done:
			if !c.In(session) {
				c.removeOrphans(dir, []znode.Node{new}, errElsewhere)
				return ErrOver
			}
			return nil
		case refused:
			return err
		case unknown:
			// A quorum request on this connection is ordered behind
			// whatever became of the transaction.
			err := c.Check(context.Background(), session, &zk.CheckVersionRequest{Path: dir + "/" + new.Name, Version: -1})
			if err == nil || err != zk.ErrNoNode {
				return err
			}
		}
		if err := retry.again(context.Background(), "replace", err); err != nil {
			return err
		}
	}
}
