package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// errNotWrite means that there is nothing to downgrade.
var errNotWrite = errors.New("not held for writing")

// Downgrade puts a node of another kind, with the same number, in the place of the hold's node in a
// queue, in one transaction: no writer slips in between, and no waiter behind is overtaken. It runs
// to its end whatever ctx says; ctx bounds the wait for the answer. The end of the hold comes
// before any other error: ctx may be derived from it.
func (h *Hold) Downgrade(ctx context.Context, q *Queue, from, to znode.Kind) error {
	if err := zkclient.Ended(ctx); err != nil {
		return h.endOr(err)
	}
	if err := h.Err(); err != nil {
		return err
	}
	held := h.held.Load()
	old, _ := in(held.nodes, q)
	// Before the request is sent: it deletes the node, which is not a loss.
	pending := &heldNodes{held.nodes, make(chan struct{})}
	if held.pending != nil || len(old) != 1 || old[0].node.Kind != from || !h.held.CompareAndSwap(held, pending) {
		return h.endOr(errNotWrite) // or another downgrade was first, or a release
	}
	settle := func(now *heldNodes) {
		h.held.Store(now)
		close(pending.pending)
	}
	// An end from now on waits until it is settled which node to delete. An end before has begun to
	// delete the old one, and would not be notified of the new one.
	if err := h.Err(); err != nil {
		settle(held)
		return err
	}

	now := old[0]
	now.node = now.node.As(to)
	err := h.client.Finish(ctx, "the downgrade goes on", func() error {
		err := h.client.Replace(h.sess, q.dir, old[0].node, now.node, q.cfg.Data, q.cfg.ACL)
		if err != nil {
			settle(held)
			h.missed(old[0], err)
			return err
		}
		h.call.downgraded(q, now.node) // while a release still waits
		nodes := slices.Clone(held.nodes)
		nodes[slices.Index(nodes, old[0])] = now
		settle(&heldNodes{nodes: nodes})
		if h.watching.Load() {
			go h.watch(now)
		}
		if h.request.Load() != nil {
			go h.watchRequest(now)
		}
		return nil
	})
	// If a release has ended the hold meanwhile, the server's error about the node is not the
	// answer; and a success is not an error.
	if end := h.Err(); end != nil && (err != nil || errors.Is(end, hold.ErrLost)) {
		return end
	}
	return Explain(err, "WRITE on "+old[0].path()+", CREATE and DELETE on "+q.dir)
}
