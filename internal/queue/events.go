package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// tellRetried tells observers that the client sends a request of this queue again.
func (q *Queue) tellRetried(op string, cause error) {
	e := observe.Retried{Path: q.cfg.Path, Op: op, Cause: cause}
	for _, o := range q.cfg.Observers {
		if o.Retried != nil {
			o.Retried(e)
		}
	}
}

// event is what every event of these nodes begins with.
func (q *Queue) event(nodes []znode.Node, token int64) observe.LockInfo {
	e := observe.LockInfo{Path: q.cfg.Path, Kind: q.observedKind(nodes[0]), Permits: 1, Node: nodes[0].Name, Token: token}
	if e.Kind == observe.KindPermits {
		e.Permits = len(nodes)
	}
	return e
}

// observedKind is what a node asks for.
func (q *Queue) observedKind(n znode.Node) observe.Kind {
	switch q.cfg.Names.mode(n.Kind) {
	case Read:
		return observe.KindRead
	case Permit:
		return observe.KindPermits
	case Mutex:
		return observe.KindMutex
	}
	return observe.KindWrite
}

// queued is what observers were told of a waiter that has to wait.
type queued struct {
	since time.Time // zero: it has not had to
}

// tellQueued tells observers, once, how many nodes must be deleted before it is the waiter's turn.
func (w *waiter) tellQueued(ahead int) {
	observers := w.queue.cfg.Observers
	if len(observers) == 0 || !w.queued.since.IsZero() {
		return
	}
	w.queued.since = time.Now()
	e := observe.Queued{LockInfo: w.queue.event(w.nodes, w.token), Ahead: ahead}
	for _, o := range observers {
		if o.Queued != nil {
			o.Queued(e)
		}
	}
}

// tellLeft tells observers that nodes which had to wait are gone without a grant.
func (q *Queue) tellLeft(nodes []znode.Node, token int64, was queued, cause error) {
	if was.since.IsZero() {
		return
	}
	e := observe.Left{LockInfo: q.event(nodes, token), Waited: time.Since(was.since), Cause: cause}
	for _, o := range q.cfg.Observers {
		if o.Left != nil {
			o.Left(e)
		}
	}
}

// Observers are told of two things that differ in number: nodes in the queue, and holds, of which
// several may rest on one node. Each begins once and ends once, in one of two events, so that a
// difference is a gauge. Observing asks the server for nothing.

// HoldEvents tells observers of one call of a recipe and the hold that it led to. It is nil without
// observers, and its methods do nothing then.
type HoldEvents struct {
	queue  *Queue
	began  time.Time
	forget func() // takes back what waits for the loss of the grant

	mu   sync.Mutex // not held while observers are told
	lock observe.LockInfo
	held time.Time
	over bool
	// While a downgrade is told of, the end of the hold waits for it.
	telling bool
	late    func()
}

// NewEvents begins a call.
func (q *Queue) NewEvents() *HoldEvents {
	if len(q.cfg.Observers) == 0 {
		return nil
	}
	return &HoldEvents{queue: q, began: time.Now()}
}

// Granted tells of the hold that the call has led to.
func (e *HoldEvents) Granted(g *Grant) {
	if e == nil {
		return
	}
	e.held = time.Now()
	e.lock = e.queue.event(g.current(), g.token)
	g.events.Store(e)
	joined := g.told.Swap(true)
	e.tellGranted(observe.Granted{
		LockInfo: e.lock, Waited: e.held.Sub(e.began),
		Queued: !g.queued.since.IsZero() && !g.waited.Swap(true), Joined: joined,
	})
	// On a goroutine of its own: the goroutine that ends the grant may hold a mutex, and has other
	// holders to tell.
	e.forget = g.OnEnd(hold.Observers, func(end error) {
		if errors.Is(end, hold.ErrLost) {
			go e.ended(end)
		}
	})
}

// Released tells how the hold has ended, by the error of its Release.
func (e *HoldEvents) Released(err error) {
	if e == nil || errors.Is(err, hold.ErrReleased) {
		return
	}
	e.forget()
	e.ended(err)
}

func (e *HoldEvents) ended(end error) {
	e.mu.Lock()
	over, lock, held := e.over, e.lock, time.Since(e.held)
	e.over = true
	if e.telling && !over {
		e.late = func() { e.tellEnd(lock, held, end) }
		over = true
	}
	e.mu.Unlock()
	if !over {
		e.tellEnd(lock, held, end)
	}
}

func (e *HoldEvents) tellEnd(lock observe.LockInfo, held time.Duration, end error) {
	lost := errors.Is(end, hold.ErrLost)
	for _, o := range e.queue.cfg.Observers {
		switch {
		case lost && o.Lost != nil:
			o.Lost(observe.Lost{LockInfo: lock, Held: held, Cause: end})
		case !lost && o.Released != nil:
			o.Released(observe.Released{LockInfo: lock, Held: held})
		}
	}
}

// downgraded tells that the hold goes on as another, by the node n.
func (e *HoldEvents) downgraded(n znode.Node) {
	if e == nil {
		return
	}
	now := time.Now()
	e.mu.Lock()
	over, before, held := e.over, e.lock, now.Sub(e.held)
	e.lock = e.queue.event([]znode.Node{n}, before.Token)
	after := e.lock
	e.held = now
	e.telling = !over
	e.mu.Unlock()
	if over {
		return
	}
	for _, o := range e.queue.cfg.Observers {
		if o.Released != nil {
			o.Released(observe.Released{LockInfo: before, Held: held})
		}
	}
	e.tellGranted(observe.Granted{LockInfo: after, Joined: true})
	e.mu.Lock()
	late := e.late
	e.telling, e.late = false, nil
	e.mu.Unlock()
	if late != nil {
		late()
	}
}

func (e *HoldEvents) tellGranted(event observe.Granted) {
	for _, o := range e.queue.cfg.Observers {
		if o.Granted != nil {
			o.Granted(event)
		}
	}
}

// tellUnclaimed tells of a grant that came too late for the callers that waited for it.
func (g *Grant) tellUnclaimed(end error) {
	if g.queued.since.IsZero() || g.waited.Swap(true) {
		return
	}
	if errors.Is(end, hold.ErrReleased) {
		end = context.Canceled
		if g.async != nil && g.async.Err() != nil {
			end = zkclient.Ended(g.async)
		}
	}
	go g.queue.tellLeft(g.current(), g.token, g.queued, end) // see HoldEvents.Granted
}
