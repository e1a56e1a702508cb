// Package zkclient is the only package that calls a *zk.Conn. It puts a context
// in front of calls that take none, makes nodes that are never orphaned,
// deletes nodes until they are gone, shares one watch per node among all
// waiters of the process, and watches over the session while locks depend on it.
package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/liveness"
)

// ErrOver means that the session in which something was asked is over: its
// ephemeral nodes are gone, or will be, and its answers mean nothing any more.
var ErrOver = errors.New("session is over")

// ErrClosed means that the connection was closed for good.
var ErrClosed = fmt.Errorf("the connection is closed: %w", zk.ErrClosing)

// Client is everything that the locks of this process do on one connection.
type Client struct {
	*connection
	trace *Trace // nil: nobody is told
}

// connection is what all Clients of a connection share.
type connection struct {
	conn    *zk.Conn
	link    *liveness.Link
	watches watches
	monitor monitor

	// plainOnly is set once the server has said that it does not know
	// container nodes (before 3.5.1).
	plainOnly atomic.Bool

	// headers is whether the zxid in the header of a reply has been compared
	// with that of the node, and what came of it.
	headers atomic.Int32
}

// Of returns the Client of conn, which all locks of the process share, with its watches and its
// monitor. The connection keeps it.
func Of(conn *zk.Conn) *Client {
	l := liveness.Of(conn)
	return l.User(func() any {
		c := &connection{conn: conn, link: l}
		c.monitor.client = &Client{connection: c}
		l.OnClosed(c.monitor.tick)
		return c.monitor.client
	}).(*Client)
}

// Session waits until there is a session and returns its id, which is never 0.
func (c *Client) Session(ctx context.Context) (int64, error) {
	for retry := c.retry(); ; {
		if err := Ended(ctx); err != nil {
			return 0, err
		}
		if err := c.connected(ctx); err != nil {
			return 0, err
		}
		if id := c.conn.SessionID(); id != 0 {
			return id, nil
		}
		if err := retry.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// In reports whether session is still the one that the connection is in. It is
// asked after an answer came: the client takes the new id before it sends
// anything in the new session, so an answer from there finds the id changed.
func (c *Client) In(session int64) bool { return c.conn.SessionID() == session }

// Up reports whether the connection is up, in the given session.
func (c *Client) Up(session int64) bool {
	return c.conn.State() == zk.StateHasSession && c.In(session)
}

// Epoch counts reconnects. If two calls return the same epoch, no reconnect happened in between, so all events
// in between arrived in the server's order.
func (c *Client) Epoch() uint64 { return c.link.Epoch() }

// VerifyHeaderZxid compares the zxid of a claim, as the header of its reply had it, with the
// czxid of the node. Servers have always put the one there, but no document says
// that they must; so it is used where it has been seen.
func (c *Client) VerifyHeaderZxid(header, czxid int64) {
	switch {
	case header == 0:
	case header != czxid:
		c.headers.Store(headersWrong)
	default:
		c.headers.CompareAndSwap(0, headersRight)
	}
}

// HeaderZxidVerified reports whether the zxid in the header of a reply may be taken for that of
// the transaction.
func (c *Client) HeaderZxidVerified() bool { return c.headers.Load() == headersRight }

const (
	headersRight = 1
	headersWrong = 2 // for ever
)

// Ended returns nil while ctx lives, then its error together with its cause, so
// that both can be matched.
//
// A cause that tells the state of a lock is in the text only. It is that of the hold whose
// context has ended, which need not be the one that the caller asks about: matched in the
// error of an Unlock, it would say that a lock was lost that was held to the end.
func Ended(ctx context.Context) error {
	hold.NeedContext(ctx)
	err := ctx.Err()
	if err == nil {
		return nil
	}
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, err):
		return err
	case errors.Is(cause, hold.ErrLost), errors.Is(cause, hold.ErrReleased), errors.Is(cause, hold.ErrBusy):
		return fmt.Errorf("%w: %v", err, cause)
	default:
		return fmt.Errorf("%w: %w", err, cause)
	}
}
