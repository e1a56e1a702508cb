package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// canceled adds to the error of a ctx that has ended what the waiters were waiting for, as far as
// that is known without a request.
func (all waiters) canceled(ctx context.Context, err error) error {
	err = all[0].queue.client.Unreached(ctx, err, time.Time{})
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, wire.ErrNoAnswer) {
		return err
	}
	for _, w := range all { // they are waited for in this order
		switch ahead := w.ahead.Load(); {
		case ahead == 0: // its turn has come, or it has not listed
		case len(all) == 1:
			return fmt.Errorf("%w: %d ahead in the queue; this connection %s", err, ahead, w.held())
		default:
			return fmt.Errorf("%w: %s: %d ahead in the queue; this connection %s", err, znode.Shown(w.queue.cfg.Path), ahead, w.held())
		}
	}
	return err
}

// held says how many of the nodes ahead this connection holds, and for how long: so a caller that
// waits for itself sees it.
func (w *waiter) held() string {
	q, held, since := w.queue, 0, time.Now()
	q.client.Held.Range(func(grant, _ any) bool {
		g := grant.(*Grant)
		for _, n := range g.held.Load().nodes {
			if n.queue.dir == q.dir && n.node.Seq < w.nodes[0].Seq && slices.Contains(q.kinds, n.node.Kind) && q.rule(w.request, Limit{}).waitsFor(n.node) {
				held++
				if g.since.Before(since) {
					since = g.since
				}
			}
		}
		return true
	})
	if held == 0 {
		return "holds none"
	}
	return fmt.Sprintf("has held %d for %v", held, time.Since(since).Round(time.Millisecond))
}

// Canceled is the error of a caller without nodes of its own that stops waiting because its ctx has
// ended. ahead is how many nodes or callers have to go before it is its turn; 0: unknown.
func (q *Queue) Canceled(ctx context.Context, r Request, ahead int) error {
	w := &waiter{queue: q, request: r, nodes: []znode.Node{{Seq: math.MaxInt64}}}
	w.ahead.Store(int64(ahead))
	return waiters{w}.canceled(ctx, zkclient.Ended(ctx))
}
