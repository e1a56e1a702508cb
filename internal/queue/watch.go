package queue

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// FirstRecheck is how long a waiter waits for an event before it checks its turn without one, then
// twice as long, and so on, each time up to a quarter less, so that waiters that came together do
// not list together. Servers from 3.8.4 and 3.9.2 on withhold the events of nodes that the client
// may not read. A waiter that may read them again by then waits at most about twice as long as it
// must; without READ on the nearest blocker it fails with zk.ErrNoAuth.
const FirstRecheck = 5 * time.Second

// largeQueue is from how many nodes on a waiter checks its nearest blocker before it lists again.
const largeQueue = 200

// waitEvent is the second half of step 4: unless a blocker does not exist any more, it waits for
// the first event. If it returns pending, blockers were removed.
func (w *waiter) waitEvent(ctx context.Context, b *blockers, watches []*zkclient.Watch) (turn, error) {
	if slices.Contains(watches, nil) {
		for i, n := range b.watched {
			if watches[i] == nil {
				b.remove(n, false)
			}
		}
		return pending, nil
	}
	for {
		timer := time.NewTimer(w.patience - rand.N(w.patience/4))
		i, event, err := w.first(ctx, watches, timer.C)
		timer.Stop()
		switch {
		case err != nil:
			return failed, err
		case i == overdue:
			if next, err := w.withoutEvent(ctx, b); next != pending {
				return next, err
			}
			continue
		case i < 0, !zkclient.Gone(event):
			return relist, nil // another event than the deletion of a blocker
		case zkclient.Released(event):
			b.releasedByHolder()
		default:
			b.remove(b.watched[i], true)
		}
		return pending, nil
	}
}

// withoutEvent checks the turn of a waiter that no event has reached for a while, and reads the
// limit again. It returns pending if the waiter is to wait on: the nearest blocker exists, and a
// listing of the queue would be large. A waiter for several permits always lists.
func (w *waiter) withoutEvent(ctx context.Context, b *blockers) (turn, error) {
	w.patience *= 2
	w.limit.forget()
	path := w.queue.path(b.watched[0])
	switch _, _, err := w.queue.client.Get(ctx, path); {
	case err == zk.ErrNoAuth:
		return failed, Explain(err, "READ on "+path)
	case err == nil && w.line >= largeQueue && w.limit.Changed == nil:
		return pending, nil
	}
	return relist, nil
}

// watch sets watches with one request: on the blockers and, if an event may grant the waiter's
// nodes, on these. It returns those on the blockers; nil for one that does not exist.
func (w *waiter) watch(ctx context.Context, b *blockers) ([]*zkclient.Watch, turn, error) {
	q, n := w.queue, len(b.watched)
	marker := ""
	if b.mayBeMarked() {
		marker = q.marker
	}
	nodes, beside := b.watched, []string(nil)
	if marker != "" || b.oneLeft() { // otherwise no event grants, and the next listing is the evidence
		nodes = slices.Concat(b.watched, w.nodes)
		beside = w.beside // the client keeps these watches: waiters.confirm finds them there
	}
	watches, err := q.client.WatchNodes(ctx, w.sess, marker, append(q.paths(nodes), beside...))
	if err != nil {
		return nil, failed, Explain(err, "READ on the nodes in "+q.dir)
	}
	if own := watches[n:len(nodes)]; len(own) > 0 {
		if next, err := w.exists(ctx, own); next != pending {
			return nil, next, err
		}
	}
	return watches[:n], pending, nil
}

// exists takes watches on the waiter's nodes as evidence that these exist (invariant 1).
func (w *waiter) exists(ctx context.Context, own []*zkclient.Watch) (turn, error) {
	if slices.Contains(own, nil) {
		return requeue, errNodeGone
	}
	// A watch whose event the server withholds is no evidence.
	if !w.queue.readable.Load() {
		path := w.queue.path(w.nodes[0])
		switch _, _, err := w.queue.client.Get(ctx, path); {
		case err == zk.ErrNoNode:
			return relist, nil
		case err != nil:
			return failed, Explain(err, "READ on "+path)
		}
		w.queue.readable.Store(true)
	}
	w.own = own
	return pending, nil
}

// What has come first, if it is none of the blockers' watches.
const (
	another = -1 - iota // one of the waiter's own, or that of the limit
	overdue             // no event for long
)

// first waits for the first event: that of watch i, another, or overdue.
func (w *waiter) first(ctx context.Context, watches []*zkclient.Watch, late <-chan time.Time) (i int, event zk.Event, err error) {
	if len(watches) == 1 && len(w.own) <= 1 {
		var own *zkclient.Watch
		var ownC, limitC <-chan zk.Event
		if len(w.own) == 1 {
			own = w.own[0]
			ownC = own.C()
		}
		if w.limit.Changed != nil {
			limitC = w.limit.Changed.C()
		}
		select {
		case event, first := <-watches[0].C():
			return 0, watches[0].Event(event, first), nil
		case event, first := <-ownC:
			return another, own.Event(event, first), nil
		case event, first := <-limitC:
			return another, w.limit.Changed.Event(event, first), nil
		case <-late:
			return overdue, zk.Event{}, nil
		case <-ctx.Done():
			return another, zk.Event{}, zkclient.Ended(ctx)
		}
	}
	all := slices.Concat(watches, w.own)
	if w.limit.Changed != nil {
		all = append(all, w.limit.Changed)
	}
	j, event := receive(all, ctx.Done(), late)
	switch {
	case j == len(all):
		return another, zk.Event{}, zkclient.Ended(ctx)
	case j > len(all):
		return overdue, zk.Event{}, nil
	case j >= len(watches):
		j = another
	}
	return j, event, nil
}

// mostWatches is how many watches one select waits for: reflect.Select takes 65,536 cases.
const mostWatches = 60_000

// receive waits for the first event of the watches, or for one of the other channels, whose index
// comes after those of the watches.
func receive(watches []*zkclient.Watch, others ...any) (int, zk.Event) {
	if len(watches) > mostWatches {
		return receiveInParts(watches, others)
	}
	cases := make([]reflect.SelectCase, 0, len(watches)+len(others))
	for _, w := range watches {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.C())})
	}
	for _, other := range others {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(other)})
	}
	i, value, first := reflect.Select(cases)
	if i >= len(watches) {
		return i, zk.Event{}
	}
	event, _ := value.Interface().(zk.Event)
	return i, watches[i].Event(event, first)
}

// receiveInParts waits for each part of the watches on a goroutine of its own. An event that comes
// second is not lost: its watch keeps it.
func receiveInParts(watches []*zkclient.Watch, others []any) (int, zk.Event) {
	type result struct {
		i     int
		event zk.Event
	}
	results := make(chan result, len(watches)/mostWatches+1)
	stop := make(chan struct{})
	var parts sync.WaitGroup
	for from := 0; from < len(watches); from += mostWatches {
		part := watches[from:min(from+mostWatches, len(watches))]
		parts.Go(func() {
			if i, event := receive(part, stop); i < len(part) {
				results <- result{from + i, event}
			}
		})
	}
	defer parts.Wait()
	defer close(stop)
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(results)}}
	for _, other := range others {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(other)})
	}
	i, value, _ := reflect.Select(cases)
	if i > 0 {
		return len(watches) + i - 1, zk.Event{}
	}
	first := value.Interface().(result)
	return first.i, first.event
}
