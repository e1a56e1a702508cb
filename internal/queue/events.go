package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Observers are notified of calls and of holds. Each call begins with Called, and ends with Granted
// or Failed; each hold begins with Granted, and ends with Released or Lost. So differences of these
// counts are gauges. No event takes a request.

// tellQueued reports, once, that the waiter must wait, and for how many deletions.
func (w *waiter) tellQueued(ctx context.Context, ahead int) {
	if len(w.queue.cfg.Observers) == 0 || w.queued {
		return
	}
	w.queued = true
	event := observe.Queued{LockInfo: w.queue.info(w.request), Context: ctx, At: time.Now(), Ahead: ahead}
	event.Node, event.Token = w.nodes[0].Name, w.token
	w.queue.each(func(o observe.Observer) { tell(o.Queued, event) })
}

// info describes a request, without Node and Token.
func (q *Queue) info(r Request) observe.LockInfo {
	lock := observe.LockInfo{Path: q.cfg.Path, Kind: modes[q.cfg.Names.mode(r.Kind)].observed, Permits: 1}
	if lock.Kind == observe.KindPermits {
		lock.Permits = r.Nodes
	}
	return lock
}

// info describes the nodes in a queue that the grant holds, or has held.
func (g *Grant) info(q *Queue) observe.LockInfo {
	nodes, _ := in(g.held.Load().nodes, q)
	if nodes == nil {
		nodes, _ = in(g.granted.nodes, q)
	}
	lock := q.info(Request{Kind: nodes[0].node.Kind, Nodes: len(nodes)})
	lock.Node, lock.Token = nodes[0].node.Name, g.token
	return lock
}

// A Call is one call of a recipe that acquires one lock or several, and then the hold that it
// returns. It notifies the observers of each lock that has observers.
//
// The events of a hold come one after the other. A downgrade notifies the observers before it is
// settled, and the event of a release waits for a downgrade under way. The event of a loss does not
// wait, so that a loss in an outage is reported at once: it takes the place of the downgrade's
// events. Only if the downgrade notifies the observers already, the loss is reported after that.
type Call []*observed

// observed is the part of a call that concerns one lock.
type observed struct {
	queue *Queue
	ctx   context.Context // of the call; nil when the call has returned a hold, which may live for months
	began time.Time
	lock  observe.LockInfo
	held  atomic.Pointer[heldLock] // nil: there is no hold yet, or its end was reported
}

// heldLock is a lock as the observers were last notified of it. It is immutable.
type heldLock struct {
	observe.LockInfo
	since time.Time
	// changing says that a downgrade is notifying the observers. Then it settles the grant.
	changing bool
}

// Call begins a call. It panics if ctx is nil, as NeedContext does.
func (q *Queue) Call(ctx context.Context, r Request) Call {
	hold.NeedContext(ctx)
	if len(q.cfg.Observers) == 0 {
		return nil
	}
	c := &observed{queue: q, ctx: ctx, began: time.Now(), lock: q.info(r)}
	q.each(func(o observe.Observer) { tell(o.Called, observe.Called{LockInfo: c.lock, Context: ctx, At: c.began}) })
	return Call{c}
}

// Fail ends a call that has failed, and returns its error with the operation and the path.
func (q *Queue) Fail(call Call, op string, err error) error {
	err = q.Wrap(op, err)
	call.failed(err)
	return err
}

func (call Call) failed(err error) {
	for _, c := range call {
		now := time.Now()
		event := observe.Failed{LockInfo: c.lock, Context: c.ctx, At: now, Waited: now.Sub(c.began), Cause: err}
		c.queue.each(func(o observe.Observer) { tell(o.Failed, event) })
	}
}

// granted reports that the call has returned h.
func (call Call) granted(h *Hold) {
	joined := h.observed.Swap(true)
	for _, c := range call {
		now := &heldLock{LockInfo: h.info(c.queue), since: time.Now()}
		c.held.Store(now)
		event := observe.Granted{LockInfo: now.LockInfo, Context: c.ctx, At: now.since, Waited: now.since.Sub(c.began), Joined: joined}
		c.ctx = nil
		c.queue.each(func(o observe.Observer) { tell(o.Granted, event) })
	}
}

// ended reports how h has ended: a loss, or the error of its Release.
func (call Call) ended(h *Hold, end error) {
	lost := errors.Is(end, hold.ErrLost)
	for _, c := range call {
		was, now := c.held.Load(), time.Now()
		switch {
		case was == nil: // reported already
		case was.changing, !lost && h.held.Load().pending != nil, !c.held.CompareAndSwap(was, nil):
			go func() {
				h.stable()
				call.ended(h, end)
			}()
		case lost:
			event := observe.Lost{LockInfo: was.LockInfo, At: now, Held: now.Sub(was.since), Cause: end}
			c.queue.each(func(o observe.Observer) { tell(o.Lost, event) })
		default:
			event := observe.Released{LockInfo: was.LockInfo, At: now, Held: now.Sub(was.since)}
			c.queue.each(func(o observe.Observer) { tell(o.Released, event) })
		}
	}
}

// Unless the hold has ended, leaked reports that the caller has dropped it. The garbage collector
// calls it, so leaked must not end the hold, nor refer to the caller's Hold.
func (call Call) leaked() {
	for _, c := range call {
		if was := c.held.Load(); was != nil {
			now := time.Now()
			event := observe.Leaked{LockInfo: was.LockInfo, At: now, Held: now.Sub(was.since)}
			c.queue.each(func(o observe.Observer) { tell(o.Leaked, event) })
		}
	}
}

// downgraded notifies the observers of q that the hold was released, and then that a hold with the
// kind and the name of the node n was called and granted. ctx is the context of the downgrade.
func (call Call) downgraded(ctx context.Context, q *Queue, n znode.Node) {
	for _, c := range call {
		was := c.held.Load()
		if c.queue != q || was == nil || !c.held.CompareAndSwap(was, &heldLock{was.LockInfo, was.since, true}) {
			continue
		}
		now := &heldLock{LockInfo: was.LockInfo, since: time.Now()}
		now.Kind, now.Node = q.info(Request{Kind: n.Kind}).Kind, n.Name
		called := now.LockInfo
		called.Node, called.Token = "", 0
		q.each(func(o observe.Observer) {
			tell(o.Released, observe.Released{LockInfo: was.LockInfo, At: now.since, Held: now.since.Sub(was.since)})
			tell(o.Called, observe.Called{LockInfo: called, Context: ctx, At: now.since})
			tell(o.Granted, observe.Granted{LockInfo: now.LockInfo, Context: ctx, At: now.since, Joined: true})
		})
		c.held.Store(now)
	}
}
