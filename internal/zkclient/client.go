// Package zkclient makes all requests of the locks. Its calls take a context, unlike the zk
// client's calls. It creates nodes that are never orphaned, and repeats a delete until the nodes
// are gone. While locks depend on a session, its monitor keeps the session alive. At the session's
// deadline the monitor declares the holds lost.
package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
)

// ErrOver means that the session of a request is over. Its ephemeral nodes are gone or will be, and
// answers to its requests are no longer valid.
var ErrOver = errors.New("session is over")

// ErrClosed means that the connection is closed for good.
var ErrClosed = fmt.Errorf("the connection is closed: %w", zk.ErrClosing)

// Client makes all requests of this process's locks on one connection.
type Client struct {
	*connection
	// retried is called when an unanswered request is sent again, on any goroutine, while the
	// Client holds no mutex. It may be nil.
	retried func(op string, cause error)
}

// Traced returns the same client, which calls retried when it sends an unanswered request again.
func (c *Client) Traced(retried func(op string, cause error)) *Client {
	return &Client{connection: c.connection, retried: retried}
}

// connection is the state that all Clients of one connection share.
type connection struct {
	conn    *wire.Conn
	monitor monitor
	Held    sync.Map // the grants of package queue that have not ended
	strays  sync.Map // the keys are *stray

	// headers is 0 until the zxid in the header of a reply has been compared with the czxid of the
	// node, then headersRight or headersWrong.
	headers atomic.Int32
}

// Of returns the Client of conn. All locks of the process that use conn share it, with its watches
// and its monitor.
func Of(conn *wire.Conn) *Client {
	m := conn.Monitored(func() wire.Monitor {
		c := &connection{conn: conn}
		c.monitor.client = &Client{connection: c}
		return &c.monitor
	})
	return m.(*monitor).client
}

// Session waits until there is a session and returns its id, which is never 0.
func (c *Client) Session(ctx context.Context) (int64, error) {
	for retry := c.retry(); ; {
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

// Same reports whether both use one connection.
func (c *Client) Same(other *Client) bool { return c.connection == other.connection }

// In reports whether session is still the current session of the connection. Call it after an
// answer: the zk client sets the new id before it sends anything in the new session, so after an
// answer from a new session the id differs.
func (c *Client) In(session int64) bool { return c.conn.SessionID() == session }

// Up reports whether the connection is up, and in the given session.
func (c *Client) Up(session int64) bool {
	return c.conn.State() == zk.StateHasSession && c.In(session)
}

// Timeout returns the granted session timeout, see wire.Conn.Timeout.
func (c *Client) Timeout() time.Duration { return c.conn.Timeout() }

// Epoch counts reconnects. If two calls return the same epoch, the client has not reconnected in
// between, so all events in between arrived in the server's order.
func (c *Client) Epoch() uint64 { return c.conn.Epoch() }

// VerifyHeaderZxid compares the zxid in the header of the reply to a claim with the czxid of the
// node. In all known servers they are equal, but no document promises it. So the header is used
// only after the first comparison.
func (c *Client) VerifyHeaderZxid(header, czxid int64) {
	switch {
	case header == 0:
	case header != czxid:
		c.headers.Store(headersWrong)
	default:
		c.headers.CompareAndSwap(0, headersRight)
	}
}

// HeaderZxidVerified reports whether the zxid in the header of a reply may be used as the zxid of
// the transaction.
func (c *Client) HeaderZxidVerified() bool { return c.headers.Load() == headersRight }

const (
	headersRight = 1
	headersWrong = 2 // forever
)
