package queue

import (
	"context"
	"errors"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// Acquire queues until the request is granted or ctx ends. With wait false it returns hold.ErrBusy
// if the request would have to wait: it lists first, and creates nothing when that is visible.
func (q *Queue) Acquire(ctx context.Context, r Request, wait bool) (*Grant, error) {
	if q.err != nil {
		return nil, q.err
	}
	return acquire(ctx, []Part{{Queue: q, Request: r}}, wait)
}

// acquire is the ZooKeeper lock recipe, for one request or for several that are granted together
// (together.go). The numbers are the steps of doc.go.
func acquire(ctx context.Context, parts []Part, wait bool) (*Grant, error) {
	for {
		all, err := enqueue(ctx, parts, wait) // 1 create
		if all != nil {
			if a := parts[0].async; a != nil {
				a.queued.Store(all[0])
			}
			var next turn
			if next, err = all.waitTurn(ctx, wait); next == granted {
				return newGrant(all), nil
			}
			err = all.leave(ctx, next, all.canceled(ctx, err)) // no other way out leaves a node behind
		}
		if err != nil {
			return nil, parts[0].Queue.client.Unreached(ctx, err, time.Time{})
		}
	}
}

// turn is what a step says of the waiter's turn.
type turn int

const (
	pending turn = iota // not decided: go on with the next step
	granted             // it is the waiter's turn
	relist              // what the waiter knows does not tell: list again
	requeue             // the waiter's nodes are gone: start over at the tail
	failed              // an error says why
)

// waitTurn waits until the waiter's nodes are granted, gone, or given up.
func (w *waiter) waitTurn(ctx context.Context, wait bool) (turn, error) {
	if err := w.usable(); err != nil {
		return failed, err
	}
	if w.shortcut() == granted {
		return granted, nil
	}
	return w.await(ctx, wait, w.look(ctx, wait))
}

// await waits for events, and lists again for as long as it takes another listing.
func (w *waiter) await(ctx context.Context, wait bool, l looked) (next turn, err error) {
	for next, err = w.waitOnce(ctx, l); next == relist; next, err = w.waitOnce(ctx, w.look(ctx, wait)) {
	}
	if errors.Is(err, zkclient.ErrOver) || errors.Is(err, errNodeGone) {
		return requeue, err
	}
	return next, err
}

// looked is what a listing has shown, and the watches that were set.
type looked struct {
	blockers *blockers
	watches  []*zkclient.Watch
	next     turn // pending: wait for an event
	err      error
}

// look lists once and, if that does not grant, sets the watches.
func (w *waiter) look(ctx context.Context, wait bool) (l looked) {
	if err := zkclient.Ended(ctx); err != nil {
		return looked{next: failed, err: err}
	}
	l.blockers, l.next, l.err = w.list(ctx) // 2 list
	b := l.blockers
	if b == nil {
		return l
	}
	w.ahead.Store(int64(b.ahead()))
	switch {
	case b.clear(): // 3 compare
		l.next, l.err = w.confirm() // 5 recheck
	case !wait:
		l.next, l.err = failed, hold.ErrBusy
	default:
		w.tellQueued(b.ahead())
		l.watches, l.next, l.err = w.watch(ctx, b) // 4 watch
	}
	return l
}

// waitOnce waits for one event.
func (w *waiter) waitOnce(ctx context.Context, l looked) (turn, error) {
	if l.next != pending {
		return l.next, l.err
	}
	if next, err := w.waitEvent(ctx, l.blockers, l.watches); next != pending { // 4 wait
		return next, err
	}
	if !l.blockers.clear() || w.own == nil { // 3 compare; without a watch of its own no evidence (invariant 1)
		return relist, nil
	}
	//invariant 1: len(w.own) == len(w.nodes)
	return w.confirm() // 5 recheck
}

// confirm is step 5. If the nodes are gone, it adds the reason.
func (w *waiter) confirm() (turn, error) {
	switch next := w.recheck(); {
	case next != requeue:
		return next, nil
	case !w.queue.client.In(w.sess):
		return requeue, zkclient.ErrOver
	}
	return requeue, errNodeGone
}

// recheck comes before every grant. One goroutine reads the connection, and stores each event in
// its watch before it passes on the next packet. So when the event or the reply that allows the
// grant has arrived, the watches show all that the server sent before it, and recheck finds what
// forbids the grant.
func (w *waiter) recheck() turn {
	for _, own := range w.own {
		if event, fired := own.Fired(); fired {
			if !zkclient.Gone(event) {
				return relist // a client has written into the node, or the watch has ended with its connection
			}
			return requeue
		}
	}
	switch client := w.queue.client; {
	case w.limit.changed():
		return relist // invariant 8
	case !client.In(w.sess):
		return requeue // invariant 2
	case client.Epoch() != w.epoch:
		return relist // after a reconnect events may be late: invariants 2 and 11
	case w.lease.Alive() != nil:
		return relist
	}
	return granted
}
