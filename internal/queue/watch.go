package queue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// waitEvent is the second half of step 4: it strikes out blockers that are gone, and returns
// pending when it may be the waiter's turn.
func (w *waiter) waitEvent(ctx context.Context, b *blockers) (turn, error) {
	watches := w.watches
	bell := wire.NewBell(slices.Concat(watches, w.own, []*zkclient.Watch{w.limit.Changed})...)
	defer bell.Leave()
	limit := ctx
	if w.request.tries {
		if w.busy.IsZero() {
			w.busy = time.Now().Add(max(50*time.Millisecond, 4*w.queue.client.Latency(), 2*time.Since(w.listed)))
		}
		var cancel context.CancelFunc
		limit, cancel = context.WithDeadline(ctx, w.busy)
		defer cancel()
	}
	var recheck time.Time // when to check its turn without an event
	says := false         // the next line of the log comes first
	for {
		var next turn
		if watches, next = b.strike(watches); next != pending || fired(w.limit.Changed) || slices.ContainsFunc(w.own, fired) {
			return relist, nil
		}
		if b.clear() || !b.wakes() {
			break
		}
		w.ahead.Store(int64(b.ahead()))
		if !says {
			after := w.patience.after()
			recheck = time.Now().Add(after - rand.N(after/4))
		}
		wake := recheck
		if says = w.queue.cfg.Conn.Logs() && w.says.Before(recheck); says {
			wake = w.says
		}
		timer := time.NewTimer(time.Until(wake))
		rung := bell.Wait(limit, timer.C)
		timer.Stop()
		switch {
		case rung:
			says = false
		case ctx.Err() != nil:
			return relist, zkclient.Ended(ctx)
		case limit.Err() != nil:
			return relist, hold.ErrBusy
		case says:
			if !w.say(ctx, b) {
				return relist, nil
			}
		default:
			if next, err := w.withoutEvent(ctx, b); next != pending || err != nil {
				return next, err
			}
		}
	}
	if !b.clear() || w.own == nil { // without a watch of its own it has no evidence (invariant 1)
		return relist, nil
	}
	b.bug.unless(len(w.own) == len(w.nodes), 1)
	return pending, nil
}

// say logs for whom the waiter waits, after T and then each 10 T. It returns false if the first
// blocker has left since the listing. A large listing is not repeated for that.
func (w *waiter) say(ctx context.Context, b *blockers) bool {
	q := w.queue
	data, stat, err := q.client.Get(ctx, q.path(b.first))
	if err == zk.ErrNoNode && w.line < 200 {
		return false
	}
	whom := ""
	if err == nil {
		m := q.member(b.first, 1, data, stat)
		whom = " for the node " + znode.Shown(m.Path)
		if m.Session == w.sess {
			whom += " of this connection"
		}
		if m.Pid != 0 {
			whom += fmt.Sprintf(", pid %d on %s", m.Pid, m.Host)
		} else if len(m.Data) > 0 {
			whom += fmt.Sprintf(", data %.100q", m.Data)
		}
		whom += ", there since " + m.Since.Format(time.RFC3339)
	}
	now := time.Now()
	w.says = now.Add(10 * q.client.Timeout())
	q.cfg.Conn.Printf("zklocks: %v: a call has waited %v%s%s", q.info(w.request), now.Sub(w.began).Round(time.Millisecond), whom, q.mine(w.request, 1))
	return true
}

// strike strikes out each blocker whose watch is nil, because it did not exist when the watches
// were set, and each blocker whose watch reports its deletion. It returns the watches on the other
// blockers. If a watch reports anything else, it returns relist.
func (b *blockers) strike(watches []*zkclient.Watch) ([]*zkclient.Watch, turn) {
	for i := len(watches) - 1; i >= 0; i-- {
		seen := watches[i] != nil
		if seen {
			event, fired := watches[i].Fired()
			switch {
			case !fired:
				continue
			case !zkclient.Gone(event):
				return nil, relist
			case zkclient.Released(event):
				b.releasedByHolder()
				return nil, pending
			}
			b.bug.unless(event.Type != zk.EventNotWatching, 3)
		}
		b.remove(i, seen)
		watches = slices.Delete(watches, i, i+1)
	}
	return watches, pending
}

// withoutEvent is called when it is time to ask without an event. It makes the waiter read its
// limit again, and list again. If the listing would be large and the nearest blocker exists, it
// returns pending instead, and the waiter continues to wait. A waiter of a semaphore always lists.
func (w *waiter) withoutEvent(ctx context.Context, b *blockers) (turn, error) {
	w.patience.due(math.MaxInt64)
	w.limit.forget()
	path := w.queue.path(b.watched[0])
	switch _, _, err := w.queue.client.Get(ctx, path); {
	case err == zk.ErrNoAuth:
		return relist, Explain(err, "READ on "+path)
	case err == nil && w.line >= 200 && w.limit.Changed == nil: // a listing would be large
		return pending, nil
	}
	return relist, nil
}

// watch sets watches with one request: on the blockers and, if an event may grant the waiter's
// nodes, on these.
func (w *waiter) watch(ctx context.Context, b *blockers) error {
	marker := ""
	if b.mayBeMarked() {
		marker = w.queue.marker
	}
	paths, own := w.queue.paths(b.watched), 0
	if marker != "" || b.allWatched() { // otherwise no event grants, and the next listing is the evidence
		for _, other := range w.together { // the connection keeps their watches: waiters.confirm finds them there
			if other == w {
				own = len(paths)
			}
			paths = append(paths, other.queue.paths(other.nodes)...)
		}
	}
	watches, err := w.queue.client.WatchNodes(ctx, w.sess, marker, paths)
	if err != nil {
		return Explain(err, "READ on the nodes in "+w.queue.dir)
	}
	w.watches = watches[:len(b.watched)]
	if own > 0 {
		return w.exists(ctx, watches[own:own+len(w.nodes)])
	}
	return nil
}

// exists takes watches on the waiter's nodes as evidence that these exist (invariant 1).
func (w *waiter) exists(ctx context.Context, own []*zkclient.Watch) error {
	if slices.Contains(own, nil) {
		return errNoNode
	}
	// A watch whose event the server withholds is no evidence.
	if !w.queue.readable.Load() {
		path := w.queue.path(w.nodes[0])
		switch _, _, err := w.queue.client.Get(ctx, path); {
		case err == zk.ErrNoNode:
			return errNoNode
		case err != nil:
			return Explain(err, "READ on "+path)
		}
		w.queue.readable.Store(true)
	}
	w.own = own
	return nil
}
