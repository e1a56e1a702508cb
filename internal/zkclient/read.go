package zkclient

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// Children lists a directory. It retries until a server answers, or returns ErrOver.
func (c *Client) Children(ctx context.Context, session int64, dir string) ([]string, *zk.Stat, error) {
	r, err := c.ask(ctx, session, "list", wire.Children(dir))
	return r.Children, r.Stat, err
}

// Stat returns the Stat of a node, which takes no right. It retries until a server answers. It
// returns zk.ErrNoNode if the node does not exist, or ErrOver.
func (c *Client) Stat(ctx context.Context, session int64, path string) (*zk.Stat, error) {
	r, err := c.ask(ctx, session, "read", wire.Exists(path))
	return r.Stat, err
}

// Get reads a node. It retries until a server answers.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := c.ask(ctx, AnySession, "read", wire.GetData(path))
	return r.Data, r.Stat, err
}

// Set writes a node's data. It retries until a server answers. If an answer is lost, it writes
// again, so the server may write twice.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) error {
	_, err := c.ask(ctx, AnySession, "write", wire.SetData(path, data, version))
	return err
}

// Check asks the quorum whether nodes exist in the given versions (-1: any). It retries until a
// server answers, or returns ErrOver. If a node does not exist, Check returns its index and
// zk.ErrNoNode, zk.ErrBadVersion or zk.ErrNoAuth; otherwise the index is NotDone.
func (c *Client) Check(ctx context.Context, session int64, checks ...*zk.CheckVersionRequest) (failed int, err error) {
	ops := make([]any, len(checks))
	for i, check := range checks {
		ops[i] = check
	}
	r, err := c.ask(ctx, session, "check", wire.Multi(ops...))
	if outcomeOf(err) != refused {
		return NotDone, err
	}
	return r.Failed, err
}

// Barrier sends an empty quorum request, which brings a server that lags behind up to date. A later
// read on the same connection shows all changes that were committed before the call. Barrier
// returns ErrOver if the session is over.
func (c *Client) Barrier(ctx context.Context, session int64) error {
	failed, err := c.Check(ctx, session, barrier)
	if failed != NotDone { // the leader has asked the quorum, also if it refuses the check
		return nil
	}
	return err
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
		wire.Wait(ctx, time.After(c.conn.Timeout()/8))
	}
}

// Replace replaces an ephemeral node with a new node in one transaction, so no server ever shows
// the directory without both. The transaction writes to the old node first, so data watches on it
// fire with a change. A watch that fires with a deletion thus means that no node has replaced the
// deleted node. If the answer is lost, Replace checks which of the two nodes exists. It returns
// zk.ErrNoNode if the old node was gone, ErrOver, ErrClosed or the server's refusal. It takes no
// context, because its caller must know the result.
func (c *Client) Replace(session int64, dir string, old, new znode.Node, data []byte, acl []zk.ACL) error {
	request := wire.Multi(
		&zk.SetDataRequest{Path: dir + "/" + old.Name, Version: -1}, // without data: twice the largest data would not fit into one request
		&zk.CreateRequest{Path: dir + "/" + new.Name, Data: data, Acl: acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: dir + "/" + old.Name, Version: -1},
	)
	perhaps := false // an earlier try, whose answer was lost, may still succeed, see claimTry.search
	for a := c.attempt(context.Background(), session, "replace"); ; {
		if err := a.next(); err != nil {
			return err
		}
		_, err := c.conn.Ask(context.Background(), session, request)
		o := a.outcome(err)
		switch {
		case o == done:
			return nil
		case o == unsent:
			continue
		case o == refused && !perhaps:
			return err
		}
		perhaps = true
		// The quorum orders a request on this connection behind the transaction.
		switch _, gone := c.Check(context.Background(), session, &zk.CheckVersionRequest{Path: dir + "/" + new.Name, Version: -1}); gone {
		case nil, zk.ErrNoAuth: // it exists: a server looks for a node before it looks at its ACL
			return nil
		case zk.ErrNoNode:
			if o == refused {
				return err
			}
		default:
			return gone
		}
	}
}
