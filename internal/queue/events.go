package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Observers are notified of calls and of holds. Each call begins with Called, and ends with Granted
// or Failed; each hold begins with Granted, and ends with Released or Lost. So differences of these
// counts are gauges. Notifying asks the server for nothing.

// each calls notify for each observer, which calls one of the observer's functions by tell.
func (q *Queue) each(notify func(observe.Observer)) {
	for _, o := range q.cfg.Observers {
		notify(o)
	}
}

func tell[E any](observer func(E), event E) {
	if observer != nil {
		observer(event)
	}
}

// tellRetried reports that the client sends a request of this queue again.
func (q *Queue) tellRetried(op string, cause error) {
	event := observe.Retried{Path: q.cfg.Path, Op: op, Cause: cause}
	q.each(func(o observe.Observer) { tell(o.Retried, event) })
}

// tellQueued reports, once, that the waiter must wait, and how many nodes must be deleted before
// its turn comes.
func (w *waiter) tellQueued(ahead int) {
	if len(w.queue.cfg.Observers) == 0 || w.queued {
		return
	}
	w.queued = true
	event := observe.Queued{LockInfo: w.queue.info(w.request), Ahead: ahead}
	event.Node, event.Token = w.nodes[0].Name, w.token
	w.queue.each(func(o observe.Observer) { tell(o.Queued, event) })
}

// info describes a request. A Node and a Token come with its nodes.
func (q *Queue) info(r Request) observe.LockInfo {
	lock := observe.LockInfo{Path: q.cfg.Path, Kind: q.observedKind(r.Kind), Permits: 1}
	if lock.Kind == observe.KindPermits {
		lock.Permits = r.Nodes
	}
	return lock
}

func (q *Queue) observedKind(kind znode.Kind) observe.Kind {
	switch q.cfg.Names.mode(kind) {
	case Read:
		return observe.KindRead
	case Permit:
		return observe.KindPermits
	case Mutex:
		return observe.KindMutex
	}
	return observe.KindWrite
}

// A Call is one call of a recipe that acquires a lock, and then the hold that it returns. It
// notifies the observers. It is nil if there are none, and its methods do nothing then.
type Call struct {
	queue  *Queue
	began  time.Time
	forget func() // removes the hook that reports the loss of the grant

	mu   sync.Mutex // held while observers are notified, so that events of a hold come one after the other
	lock observe.LockInfo
	held time.Time // when the hold began
	over bool
}

// Call begins a call. It panics if ctx is nil, as NeedContext does.
func (q *Queue) Call(ctx context.Context, r Request) *Call {
	hold.NeedContext(ctx)
	if len(q.cfg.Observers) == 0 {
		return nil
	}
	c := &Call{queue: q, began: time.Now(), lock: q.info(r)}
	q.each(func(o observe.Observer) { tell(o.Called, observe.Called{LockInfo: c.lock}) })
	return c
}

// Fail ends a call that has failed, and returns its error with the operation and the path.
func (q *Queue) Fail(c *Call, op string, err error) error {
	err = q.Wrap(op, err)
	c.failed(err)
	return err
}

func (c *Call) failed(err error) {
	if c == nil {
		return
	}
	event := observe.Failed{LockInfo: c.lock, Waited: time.Since(c.began), Cause: err}
	c.queue.each(func(o observe.Observer) { tell(o.Failed, event) })
}

// Granted ends a call that has led to a hold on g.
func (c *Call) Granted(g *Grant) {
	if c == nil {
		return
	}
	c.held = time.Now()
	c.lock = g.Info()
	g.call.Store(c)
	event := observe.Granted{LockInfo: c.lock, Waited: c.held.Sub(c.began), Joined: g.observed.Swap(true)}
	c.queue.each(func(o observe.Observer) { tell(o.Granted, event) })
	// On a goroutine of its own: the goroutine that ends the grant may hold a mutex, and has other
	// holders to notify.
	c.forget = g.OnEnd(hold.Observers, func(end error) {
		if errors.Is(end, hold.ErrLost) {
			go c.ended(end)
		}
	})
}

// Released reports how the hold has ended, by the error of its Release.
func (c *Call) Released(err error) {
	if c == nil || errors.Is(err, hold.ErrReleased) {
		return
	}
	c.forget()
	c.ended(err)
}

func (c *Call) ended(end error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	held := time.Since(c.held)
	if errors.Is(end, hold.ErrLost) {
		c.queue.each(func(o observe.Observer) { tell(o.Lost, observe.Lost{LockInfo: c.lock, Held: held, Cause: end}) })
	} else {
		c.queue.each(func(o observe.Observer) { tell(o.Released, observe.Released{LockInfo: c.lock, Held: held}) })
	}
}

// ReportsLeaks reports whether an observer wants to be notified of a hold that is never released.
func (c *Call) ReportsLeaks() bool {
	return c != nil && slices.ContainsFunc(c.queue.cfg.Observers, func(o observe.Observer) bool { return o.Leaked != nil })
}

// Leaked reports that the caller has dropped the hold, unless it has ended. It is called by the
// garbage collector, so it must not end the hold, and must not refer to the caller's Hold.
func (c *Call) Leaked() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	event := observe.Leaked{LockInfo: c.lock, Held: time.Since(c.held)}
	c.queue.each(func(o observe.Observer) { tell(o.Leaked, event) })
}

// downgraded reports that the hold goes on as another, by the node n.
func (c *Call) downgraded(n znode.Node) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	released := observe.Released{LockInfo: c.lock, Held: time.Since(c.held)}
	c.lock.Kind, c.lock.Node = c.queue.observedKind(n.Kind), n.Name
	c.held = time.Now()
	called := c.lock
	called.Node, called.Token = "", 0
	c.queue.each(func(o observe.Observer) {
		tell(o.Released, released)
		tell(o.Called, observe.Called{LockInfo: called})
		tell(o.Granted, observe.Granted{LockInfo: c.lock, Joined: true})
	})
}
