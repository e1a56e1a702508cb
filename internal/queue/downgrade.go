package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Downgrade replaces the hold's node in a queue by a node of another kind with the same number, in
// one transaction: no writer gets in between, and no waiter behind is overtaken. It runs to its end
// even if ctx ends; ctx bounds the wait for the answer. If the hold has ended, Downgrade returns
// that in place of any other error, because ctx may be derived from the hold.
func (h *Hold) Downgrade(ctx context.Context, q *Queue, from, to znode.Kind) error {
	if err := zkclient.Ended(ctx); err != nil {
		return h.endOr(err)
	}
	if err := h.Err(); err != nil {
		return err
	}
	held := h.held.Load()
	old, _ := in(held.nodes, q)
	// The request deletes the node. held is replaced before that, so that the deletion does not
	// count as a loss.
	pending := &heldNodes{held.nodes, make(chan struct{})}
	if held.pending != nil || len(old) != 1 || old[0].node.Kind != from || !h.held.CompareAndSwap(held, pending) {
		return h.endOr(errors.New("not held for writing")) // or another downgrade or a release was first
	}
	decide := func(now *heldNodes) {
		h.held.Store(now)
		close(pending.pending)
	}
	// If the hold ends from now on, the clean-up waits for decide, and deletes the right node. If
	// the hold ended before, the clean-up deletes the old node, and would leave the new one.
	if err := h.Err(); err != nil {
		decide(held)
		return err
	}

	now := old[0]
	now.node = now.node.As(to)
	err := h.Finish(ctx, "the downgrade goes on", func() error {
		err := h.client.Replace(h.sess, q.dir, old[0].node, now.node, q.cfg.Data, q.cfg.ACL)
		if err != nil {
			decide(held)
			h.missed(old[0], err)
			return err
		}
		h.call.downgraded(ctx, q, now.node) // before decide, so that a release, which waits for it, notifies later
		nodes := slices.Clone(held.nodes)
		nodes[slices.Index(nodes, old[0])] = now
		decide(&heldNodes{nodes: nodes})
		if h.watching.Load() {
			go h.watch(now)
		}
		if h.requests.Load() != nil {
			go h.watchRequest(now)
		}
		return nil
	})
	// If a release has ended the hold meanwhile, that explains an error of the request, but a
	// success remains a success.
	if end := h.Err(); end != nil && (err != nil || errors.Is(end, hold.ErrLost)) {
		return end
	}
	return Explain(err, "WRITE on "+old[0].path()+", CREATE and DELETE on "+q.dir)
}
