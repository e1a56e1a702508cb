package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Call is one call of a recipe and the hold that came of it, as its observers see
// them. Without observers it is nil, and does nothing.
type Call struct {
	line  *Line
	began time.Time
	// forget takes back what waits for the loss of the place.
	forget func()

	mu   sync.Mutex // not held while observers are told
	lock observe.Lock
	held time.Time
	over bool
	// While a downgrade is told of, the end of the hold waits for it.
	telling bool
	late    func()
}

// Call begins a call.
func (l *Line) Call() *Call {
	if len(l.cfg.Observers) == 0 {
		return nil
	}
	return &Call{line: l, began: time.Now()}
}

// Granted tells of the hold that the call has come to.
func (c *Call) Granted(p *Place) {
	if c == nil {
		return
	}
	p.mu.Lock()
	nodes := p.nodes
	p.mu.Unlock()
	c.held = time.Now()
	c.lock = c.line.event(nodes, p.token)
	p.call.Store(c)
	joined := p.claimed.Swap(true)
	c.granted(observe.Granted{
		Lock: c.lock, Waited: c.held.Sub(c.began),
		Queued: !p.waiting.since.IsZero() && !p.waited.Swap(true), Joined: joined,
	})
	// On a goroutine of its own: whoever finds out may hold any mutex, and may
	// have others to tell who must not wait.
	c.forget = p.OnEnd(hold.Observers, func(end error) {
		if errors.Is(end, hold.ErrLost) {
			go c.ended(end)
		}
	})
}

// Released tells how the hold has ended, by the error of its Unlock.
func (c *Call) Released(err error) {
	if c == nil || errors.Is(err, hold.ErrReleased) {
		return
	}
	c.forget()
	c.ended(err)
}

func (c *Call) ended(end error) {
	c.mu.Lock()
	over, lock, held := c.over, c.lock, time.Since(c.held)
	c.over = true
	if c.telling && !over {
		c.late = func() { c.tell(lock, held, end) }
		over = true
	}
	c.mu.Unlock()
	if !over {
		c.tell(lock, held, end)
	}
}

func (c *Call) tell(lock observe.Lock, held time.Duration, end error) {
	lost := errors.Is(end, hold.ErrLost)
	for _, o := range c.line.cfg.Observers {
		switch {
		case lost && o.Lost != nil:
			o.Lost(observe.Lost{Lock: lock, Held: held, Cause: end})
		case !lost && o.Released != nil:
			o.Released(observe.Released{Lock: lock, Held: held})
		}
	}
}

// downgraded tells that the hold goes on as another, by the node n.
func (c *Call) downgraded(n znode.Node) {
	if c == nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	over, before, held := c.over, c.lock, now.Sub(c.held)
	c.lock = c.line.event([]znode.Node{n}, before.Token)
	after := c.lock
	c.held = now
	c.telling = !over
	c.mu.Unlock()
	if over {
		return
	}
	for _, o := range c.line.cfg.Observers {
		if o.Released != nil {
			o.Released(observe.Released{Lock: before, Held: held})
		}
	}
	c.granted(observe.Granted{Lock: after, Joined: true})
	c.mu.Lock()
	late := c.late
	c.telling, c.late = false, nil
	c.mu.Unlock()
	if late != nil {
		late()
	}
}

func (c *Call) granted(e observe.Granted) {
	for _, o := range c.line.cfg.Observers {
		if o.Granted != nil {
			o.Granted(e)
		}
	}
}

// unclaimed tells of a place that had to wait, and came too late for those who
// waited for it.
func (p *Place) unclaimed(end error) {
	if p.waiting.since.IsZero() || p.waited.Swap(true) {
		return
	}
	if errors.Is(end, hold.ErrReleased) {
		end = context.Canceled
	}
	p.mu.Lock()
	nodes := p.nodes
	p.mu.Unlock()
	go p.line.left(nodes, p.token, p.waiting, end) // see Call.Granted
}

// orphaned tells of the nodes of a lost hold, if they were still there.
func (p *Place) orphaned(end error, removed <-chan error) {
	if len(p.line.cfg.Observers) > 0 {
		go func() { p.line.client.Orphans(p.settled(), end, removed) }()
	}
}
