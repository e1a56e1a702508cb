package zkclient

import "github.com/zklocks/zklocks/internal/znode"

// Trace is told what a Client does beyond what it was asked for. It is called
// from any goroutine, while no mutex is held.
type Trace struct {
	// Retried: a request that was not answered is asked again.
	Retried func(op string, cause error)
	// Orphan: a node that belonged to nobody was deleted.
	Orphan func(n znode.Node, cause error)
}

// Traced is the same client, with a trace of what is done by way of it.
func (c *Client) Traced(t *Trace) *Client { return &Client{connection: c.connection, trace: t} }

// removeOrphans deletes nodes that nobody waits for any more.
func (c *Client) removeOrphans(dir string, nodes []znode.Node, cause error) {
	removed := c.Remove(AnySession, dir, nodes)
	if c.trace != nil {
		go c.Orphans(nodes, cause, removed)
	}
}

// Orphans tells the trace of nodes that belong to nobody, when their deletion has
// had an effect.
func (c *Client) Orphans(nodes []znode.Node, cause error, removed <-chan error) {
	if c.trace == nil || <-removed != nil {
		return
	}
	for _, n := range nodes {
		c.trace.Orphan(n, cause)
	}
}
