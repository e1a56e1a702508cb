package queue

import (
	"context"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// Join is the ZooKeeper lock recipe: it queues until the request is granted or ctx ends. If wait
// is false, it lists first, and returns hold.ErrBusy instead of waiting. The numbers are the steps
// of doc.go. For several locks at once see together.go.
func (q *Queue) Join(ctx context.Context, r Request, wait bool) (*Grant, error) {
	if q.err != nil {
		return nil, q.err
	}
	for {
		all, _, err := enqueue(ctx, []Part{{Queue: q, Request: r}}, wait) // 1 create
		if err == nil {
			if err = all[0].waitTurn(ctx, wait); err == nil {
				return newGrant(all), nil
			}
			err = all.leave(ctx, err) // no other way out leaves a node behind
		}
		if !startsOver(err) {
			return nil, q.client.ExplainSilence(ctx, err)
		}
	}
}

// turn is the result of a step that returns no error.
type turn int

const (
	pending turn = iota // not decided: go on with the next step
	granted             // it is the waiter's turn
	relist              // unknown: list again
)

// waitTurn returns when it is the waiter's turn.
func (w *waiter) waitTurn(ctx context.Context, wait bool) error {
	next, err := w.shortcut()
	if err != nil {
		return err
	}
	return w.lineUp(ctx, wait, next)
}

// lineUp goes on with waitTurn after a step whose result was next.
func (w *waiter) lineUp(ctx context.Context, wait bool, next turn) error {
	for next != granted {
		b, err := w.compare(ctx, wait) // 2 list, 3 compare, 4 watch
		if err == nil {
			next, err = w.await(ctx, b) // 4 wait, 5 recheck
		}
		if err != nil {
			return err
		}
	}
	w.ahead.Store(0)
	return nil
}

// compare lists, compares, and watches the blockers if there are too many. It returns nil if the
// queue must be listed again.
func (w *waiter) compare(ctx context.Context, wait bool) (*blockers, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	b, err := w.list(ctx) // 2 list
	if b == nil {
		return nil, err
	}
	ahead := b.ahead() // 3 compare
	w.ahead.Store(int64(ahead))
	switch {
	case ahead == 0:
	case !wait:
		return nil, hold.ErrBusy
	default:
		w.tellQueued(ctx, ahead)
		err = w.watch(ctx, b) // 4 watch
	}
	return b, err
}

// await waits for events until it may be the waiter's turn.
func (w *waiter) await(ctx context.Context, b *blockers) (turn, error) {
	if b == nil {
		return relist, nil
	}
	if b.ahead() > 0 {
		if next, err := w.waitEvent(ctx, b); err != nil || next != pending { // 4 wait
			return next, err
		}
	}
	w.bug = b.bug
	return w.recheck() // 5 recheck
}

// shortcut returns granted if the reply to the create shows that it is the waiter's turn.
func (w *waiter) shortcut() (turn, error) {
	for _, n := range w.nodes {
		if err := n.Usable(); err != nil {
			return relist, err
		}
	}
	if w.token == 0 || !w.roomInReply() && !w.noWriterCached() { // without a token a listing reads it
		return relist, nil
	}
	next, _ := w.recheck()
	return next, nil
}

// recheck is step 5, which comes before every grant. It returns granted, relist, or an error if the
// nodes are gone.
//
// The goroutine that reads the connection stores each event in its watch before it passes on the
// next packet. So when the event or the reply that allows the grant has arrived, the watches have
// fired for everything that the server sent before, and recheck finds what forbids the grant.
func (w *waiter) recheck() (turn, error) {
	for _, own := range w.own {
		if event, fired := own.Fired(); fired {
			if zkclient.Gone(event) {
				return relist, errNoNode
			}
			return relist, nil // a client has written into the node, or the watch has ended with its connection
		}
	}
	switch client := w.queue.client; {
	case fired(w.limit.Changed): // invariant 8
	case !client.In(w.sess): // invariant 2
		return relist, zkclient.ErrOver
	case client.Epoch() != w.epoch: // after a reconnect events may be late: invariants 2 and 11
	case w.lease.Alive() != nil:
	default:
		return granted, nil
	}
	return relist, nil
}
