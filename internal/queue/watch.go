package queue

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// FirstLook is a delay. The request that sets watches on many nodes does not check READ permission,
// but servers from 3.8.4 and 3.9.2 on drop the events of nodes that the client may not read. After
// this delay without an event the waiter reads the watched nodes, which returns zk.ErrNoAuth
// instead of waiting forever. The right may also be taken away later, so the waiter reads them
// again after twice the delay, and so on: it waits at most about twice as long as it must, by few
// reads. A change of the limit whose event is withheld is found in the same way.
const FirstLook = 5 * time.Second

// waitEvent is step 4: it watches the blockers and, unless one does not exist any more, waits for
// the first event. If the turn is pending then, blockers were removed.
func (w *waiter) waitEvent(ctx context.Context, b *blockers) (turn, error) {
	watches, next, err := w.watch(ctx, b)
	if next != pending {
		return next, err
	}
	if slices.Contains(watches, nil) {
		for i, n := range b.watched {
			if watches[i] == nil {
				b.remove(n, false)
			}
		}
		return pending, nil
	}
	i, event, next, err := w.firstEvent(ctx, b, watches)
	switch {
	case next != pending:
		return next, err
	case i < 0, !zkclient.Gone(event):
		return relist, nil // another event than the deletion of a blocker
	case zkclient.Released(event):
		b.releasedByHolder()
	default:
		b.remove(b.watched[i], true)
	}
	return pending, nil
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
		if next, err := w.queue.readNodes(ctx, w.nodes[:1]); next != pending {
			return next, err
		}
		w.queue.readable.Store(true)
	}
	w.own = own
	return pending, nil
}

// What has come first, if it is none of the blockers' watches.
const (
	another = -1 - iota // one of the waiter's own, or that of the limit
	looked              // no event: a look has found something
)

// firstEvent waits for the first event: that of the blocker watched[i], or another.
func (w *waiter) firstEvent(ctx context.Context, b *blockers, watches []*zkclient.Watch) (i int, event zk.Event, next turn, err error) {
	q, limit := w.queue, w.limit.Changed // what a look reads stays the same: it may outlast the wait
	look := lookOut(ctx, func(ctx context.Context) (turn, error) {
		next, err := q.readNodes(ctx, slices.Concat(b.watched, w.nodes))
		if next == pending {
			next = q.sameLimit(ctx, limit)
		}
		return next, err
	})
	defer look.stop()
	i, event, err = w.first(ctx, watches, look.found)
	switch {
	case err != nil:
		return i, event, failed, err
	case i == looked:
		return i, event, look.next, look.err
	}
	return i, event, pending, nil
}

// A lookout looks after FirstLook, again after twice the delay, and so on, until it is stopped or a
// look returns another turn than pending: then found is closed. A look has a goroutine of its own,
// so that an event that comes meanwhile is heard at once: an overloaded server may not answer for
// long.
type lookout struct {
	found chan struct{}
	next  turn
	err   error

	ctx    context.Context
	look   func(context.Context) (turn, error)
	delay  time.Duration
	mu     sync.Mutex
	check  *time.Timer        // nil: stopped
	cancel context.CancelFunc // of a look; nil before the first: few waits are so long
}

func lookOut(ctx context.Context, look func(context.Context) (turn, error)) *lookout {
	l := &lookout{found: make(chan struct{}), ctx: ctx, look: look, delay: FirstLook}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check = time.AfterFunc(l.delay, l.run)
	return l
}

func (l *lookout) run() {
	l.mu.Lock()
	if l.check == nil {
		l.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	l.cancel = cancel
	l.mu.Unlock()
	defer cancel()

	next, err := l.look(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil: // what it has found is not known
	case next == pending:
		l.delay *= 2
		l.check.Reset(l.delay)
	default:
		l.next, l.err = next, err
		close(l.found)
	}
}

func (l *lookout) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check.Stop()
	l.check = nil
	if l.cancel != nil {
		l.cancel()
	}
}

// sameLimit returns pending if the limit is the stored one. Otherwise a listing reads it and tells.
func (q *Queue) sameLimit(ctx context.Context, changed *zkclient.Watch) turn {
	if changed == nil || q.same(ctx, changed, changed.Path()) {
		return pending
	}
	return relist
}

// same reports whether a node has the data that it had when the watch was set. If not, or if the
// client may not read them, the event is on the way or withheld, and the watch is of no more use.
func (q *Queue) same(ctx context.Context, watch *zkclient.Watch, path string) bool {
	_, stat, err := q.client.Get(ctx, path)
	switch {
	case err == nil && stat.Mzxid == watch.Stat.Mzxid:
		return true
	case err != nil && zkclient.Ended(ctx) != nil: // it is not known, and the watch may be others', too
		return true
	}
	watch.Miss()
	return false
}

// listen waits for the event of a watch until ctx ends, for a caller that is no waiter, and looks
// out meanwhile. If a look finds that something has changed the wait ends, and the watch, if there
// is one, is of no more use.
func listen(ctx context.Context, watch *zkclient.Watch, same func(context.Context) (bool, error)) (zk.Event, error) {
	look := lookOut(ctx, func(ctx context.Context) (turn, error) {
		same, err := same(ctx)
		if same {
			return pending, nil
		}
		return relist, err
	})
	defer look.stop()
	var news <-chan zk.Event
	if watch != nil {
		news = watch.C()
	}
	select {
	case event, first := <-news:
		return watch.Event(event, first), nil
	case <-ctx.Done():
		return zk.Event{}, nil
	case <-look.found:
		if watch != nil {
			watch.Miss()
		}
		return zk.Event{}, look.err
	}
}

// readNodes reads nodes. If one does not exist, its event is on the way or withheld, and the waiter
// lists.
func (q *Queue) readNodes(ctx context.Context, nodes []znode.Node) (turn, error) {
	next := pending
	for i, err := range q.client.Readable(ctx, q.paths(nodes)) {
		switch err {
		case nil:
		case zk.ErrNoNode:
			next = relist
		default:
			return failed, Explain(err, "READ on "+q.path(nodes[i]))
		}
	}
	return next, nil
}

// first waits for the first event: that of watch i, another, or looked.
func (w *waiter) first(ctx context.Context, watches []*zkclient.Watch, found <-chan struct{}) (i int, event zk.Event, err error) {
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
		case <-found:
			return looked, zk.Event{}, nil
		case <-ctx.Done():
			return another, zk.Event{}, zkclient.Ended(ctx)
		}
	}
	all := slices.Concat(watches, w.own)
	if w.limit.Changed != nil {
		all = append(all, w.limit.Changed)
	}
	j, event := receive(all, ctx.Done(), found)
	switch {
	case j == len(all):
		return another, zk.Event{}, zkclient.Ended(ctx)
	case j > len(all):
		return looked, zk.Event{}, nil
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
