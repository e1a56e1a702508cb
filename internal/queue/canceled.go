package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// canceled adds to the error of a ctx that has ended what the waiters were waiting for, if that is
// known without a request.
func (all waiters) canceled(ctx context.Context, err error) error {
	for _, w := range all { // they are waited for in this order
		if ahead := w.ahead.Load(); ahead > 0 { // else its turn has come, or it has not listed
			lock := ""
			if len(all) > 1 {
				lock = znode.Shown(w.queue.cfg.Path) + ": "
			}
			return w.queue.behind(ctx, err, w.request, ahead, lock)
		}
	}
	return err
}

// Canceled returns the error for a caller whose ctx has ended and which has no waiter of its own.
// ahead is how many nodes or callers have to go before its turn; 0: unknown.
func (q *Queue) Canceled(ctx context.Context, r Request, ahead int) error {
	return q.behind(ctx, zkclient.Ended(ctx), r, int64(ahead), "")
}

func (q *Queue) behind(ctx context.Context, err error, r Request, ahead int64, lock string) error {
	err = q.client.Unreached(ctx, err, time.Time{})
	if ahead == 0 || ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, wire.ErrNoAnswer) {
		return err
	}
	return fmt.Errorf("%w: %s%d ahead in the queue; this connection %s", err, lock, ahead, q.held(r))
}

// held says how many of the nodes that the request waits for belong to this connection, and since
// when: so a program that waits for itself can see it.
func (q *Queue) held(r Request) string {
	held, since := 0, time.Now()
	q.client.Held.Range(func(grant, _ any) bool {
		g := grant.(*Grant)
		for _, n := range g.held.Load().nodes {
			if n.queue.dir == q.dir && slices.Contains(q.kinds, n.node.Kind) && q.rule(r, Limit{}).waitsFor(n.node) {
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
