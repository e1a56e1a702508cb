package queue

import (
	"context"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// Acquire queues until the request is granted or ctx ends. If wait is false, it lists first, and
// returns hold.ErrBusy instead of waiting.
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
		all, at, err := enqueue(ctx, parts, wait) // 1 create
		if err == nil {
			if at, err = all.waitTurn(ctx, wait); err == nil {
				return newGrant(all), nil
			}
		}
		if len(parts) > 1 && at != nil {
			err = at.named(ctx, err)
		}
		if all != nil {
			err = all.leave(ctx, all.canceled(ctx, err)) // no other way out leaves a node behind
		}
		if !startsOver(err) {
			return nil, parts[0].Queue.client.ExplainSilence(ctx, err)
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

// waiters have nodes that one transaction has created, each in another directory. There is more
// than one only for zklocks.All.
type waiters []*waiter

// waitTurn waits until it is the turn of all. It waits in one queue after the other, because no
// node gets ahead of a waiter whose turn has come (together.go). If an error concerns one of
// several locks, waitTurn also returns the queue of that lock.
func (all waiters) waitTurn(ctx context.Context, wait bool) (at *Queue, err error) {
	var behind waiters
	for _, w := range all {
		for _, n := range w.nodes {
			if err := n.Usable(); err != nil {
				return w.queue, err
			}
		}
		next := relist
		if w.token != 0 && (w.roomInReply() || w.noWriterCached()) { // without a token a listing reads it
			next, _ = w.recheck()
		}
		if next != granted {
			behind = append(behind, w)
		}
	}
	for len(behind) > 0 {
		looks := make([]looked, len(behind)) // side by side
		var beside sync.WaitGroup
		for i, w := range behind[1:] {
			beside.Go(func() { looks[i+1] = w.look(ctx, wait) })
		}
		looks[0] = behind[0].look(ctx, wait)
		beside.Wait()
		for i, w := range behind {
			if err := w.await(ctx, wait, looks[i]); err != nil {
				return w.queue, err
			}
			w.ahead.Store(0)
		}
		if len(all) == 1 {
			return nil, nil
		}
		if behind, at, err = all.confirm(ctx); err != nil {
			return at, err
		}
	}
	return nil, nil
}

// confirm is step 5 for several waiters (invariant 1): while one waiter waited for its turn, a node
// of another may have been deleted. It returns, as behind, the waiters that have to list again. If
// some waiters listed more than FirstRecheck ago, these list first, because the server may have
// withheld an event. For the result at see waitTurn.
func (all waiters) confirm(ctx context.Context) (behind waiters, at *Queue, err error) {
	for _, w := range all {
		if time.Since(w.listed) > FirstRecheck {
			w.limit.forget()
			behind = append(behind, w)
		}
	}
	if len(behind) > 0 {
		return behind, nil, nil
	}
	var paths []string
	for _, w := range all {
		paths = append(paths, w.queue.paths(w.nodes)...)
	}
	own, err := all[0].queue.client.WatchNodes(ctx, all[0].sess, "", paths)
	if err != nil {
		return nil, nil, Explain(err, "READ on "+paths[0])
	}
	for _, w := range all {
		next, err := relist, w.exists(ctx, own[:len(w.nodes)])
		own = own[len(w.nodes):]
		if err == nil {
			next, err = w.recheck()
		}
		if err != nil {
			return nil, w.queue, err
		}
		if next == relist {
			behind = append(behind, w)
		}
	}
	return behind, nil, nil
}

// await waits for events, and lists again as often as necessary.
func (w *waiter) await(ctx context.Context, wait bool, l looked) error {
	for ; ; l = w.look(ctx, wait) {
		if l.err == nil && l.next == pending {
			l.next, l.err = w.waitEvent(ctx, l.blockers, l.watches) // 4 wait, 3 compare
			if l.err == nil && l.next == pending {
				l.next, l.err = w.recheck() // 5 recheck
			}
		}
		if l.err != nil || l.next == granted {
			return l.err
		}
	}
}

// looked is the result of a listing, and the watches that were set.
type looked struct {
	blockers *blockers
	watches  []*zkclient.Watch
	next     turn // pending: wait for an event
	err      error
}

// look lists once and, if that does not grant, sets the watches.
func (w *waiter) look(ctx context.Context, wait bool) (l looked) {
	if l.err = zkclient.Ended(ctx); l.err != nil {
		return l
	}
	if l.blockers, l.err = w.list(ctx); l.blockers == nil { // 2 list
		l.next = relist
		return l
	}
	ahead := l.blockers.ahead()
	w.ahead.Store(int64(ahead))
	switch {
	case ahead == 0: // 3 compare
		l.next, l.err = w.recheck() // 5 recheck
	case !wait:
		l.err = hold.ErrBusy
	default:
		w.tellQueued(ctx, ahead)
		l.watches, l.err = w.watch(ctx, l.blockers) // 4 watch
	}
	return l
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
				//invariant 3: event.Err == nil
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
