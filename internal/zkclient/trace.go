package zkclient

import "github.com/zklocks/zklocks/internal/znode"

// Trace has hooks for what a Client does beyond what its caller asked for. They are called from any
// goroutine, while the Client holds no mutex.
type Trace struct {
	// Retried is called when the Client sends an unanswered request again.
	Retried func(op string, cause error)
	// Orphan is called when the Client has deleted a node that no waiter or holder owns.
	Orphan func(n znode.Node, cause error)
}

// Traced returns the same client with a trace.
func (c *Client) Traced(t *Trace) *Client { return &Client{connection: c.connection, trace: t} }

// RemoveOrphans starts to delete nodes of a session that no caller owns, as Remove does, and
// reports those that it has deleted to the trace.
func (c *Client) RemoveOrphans(session int64, dir string, nodes []znode.Node, cause error) {
	removed := c.Remove(session, Removal{Dir: dir, Nodes: nodes})
	if c.trace == nil {
		return
	}
	go func() {
		if <-removed != nil {
			return
		}
		for _, n := range nodes {
			c.trace.Orphan(n, cause)
		}
	}()
}
