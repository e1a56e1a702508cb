// Package zkclient makes all requests of the locks. It repeats a request until a server answers it
// or the caller's ctx is canceled. It creates nodes that are never orphaned, and repeats a delete
// until the nodes are gone. While locks depend on a session, its monitor keeps the session alive.
// At the session's deadline the monitor declares the holds lost.
package zkclient

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
)

// ErrOver is wire.ErrOver.
var ErrOver = wire.ErrOver

// AnySession is wire.AnySession.
const AnySession = wire.AnySession

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
	strays  sync.Map // the keys are *stray
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

// Kept describes what the connection keeps for locks, for tests: nothing if no lock is held or
// waited for. It leaves out strays, which are kept for a minute.
func (c *Client) Kept() []string {
	kept := c.conn.Kept()
	c.monitor.mu.Lock()
	if n := len(c.monitor.leases); n > 0 {
		kept = append(kept, fmt.Sprintf("%d leases", n))
	}
	c.monitor.mu.Unlock()
	return kept
}

// Same reports whether both use one connection.
func (c *Client) Same(other *Client) bool { return c.connection == other.connection }

// In reports whether session is the current session of the connection.
func (c *Client) In(session int64) bool { return c.conn.Session() == session }

// Up reports whether the connection is up, and in the given session.
func (c *Client) Up(session int64) bool { return c.conn.Up() == session }

// Timeout returns the granted session timeout, see wire.Conn.Timeout.
func (c *Client) Timeout() time.Duration { return c.conn.Timeout() }

// Latency returns the longest latency of a heartbeat in the last minute, see wire.Conn.Heartbeat.
func (c *Client) Latency() time.Duration {
	latency, _ := c.conn.Heartbeat()
	return latency
}

// Epoch counts reconnects. If two calls return the same epoch, the client has not reconnected in
// between, so all events in between arrived in the server's order.
func (c *Client) Epoch() uint64 { return c.conn.Epoch() }
