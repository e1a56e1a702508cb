package rwlock

import (
	"context"
	"slices"
	"sync"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/session"
	"github.com/zklocks/zklocks/internal/znode"
)

// chain hands the lock on among the writers of one RWMutex value. Those who wait
// stand in line once for all of them, and whoever has the lock passes it to the
// next of them, a limited number of times in a row: then it goes back to the
// line of the cluster.
type chain struct {
	line  *queue.Line
	kind  znode.Kind
	limit int // 0: nothing is handed on

	mu      sync.Mutex
	waiting []*successor              // in the order of arrival
	sent    *struct{ callOff func() } // on its way to a place for them; or nil
	place   *queue.Place              // what one of them holds; or nil
	passed  int                       // how often that was handed on
}

// successor is one who waits. Once granted is closed it has a place or an error.
type successor struct {
	granted chan struct{}
	place   *queue.Place
	err     error
}

func (c *chain) lock(ctx context.Context) (*queue.Place, error) {
	if c.limit == 0 {
		return c.line.Wait(ctx, writeEntry(c.kind))
	}
	for {
		place, err := c.wait(ctx)
		if err != nil || place.Look() == nil {
			return place, err
		}
		c.leave(place) // it was lost on the way
	}
}

func (c *chain) try(ctx context.Context) (*queue.Place, error) {
	c.mu.Lock()
	busy := c.place != nil || len(c.waiting) > 0
	c.mu.Unlock()
	if err := session.Ended(ctx); err != nil {
		return nil, err
	}
	if busy {
		return nil, hold.ErrBusy
	}
	return c.line.Try(ctx, writeEntry(c.kind))
}

// unlock hands the place on, or gives it back.
func (c *chain) unlock(ctx context.Context, place *queue.Place) error {
	if c.limit > 0 && c.handOn(place) {
		return nil
	}
	return place.Unlock(ctx)
}

func (c *chain) wait(ctx context.Context) (*queue.Place, error) {
	if err := session.Ended(ctx); err != nil {
		return nil, err
	}
	s := &successor{granted: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, s)
	c.sendLocked()
	c.mu.Unlock()
	select {
	case <-s.granted:
		if s.err != nil || ctx.Err() == nil {
			return s.place, s.err
		}
	case <-ctx.Done():
	}
	c.quit(s)
	return nil, c.line.GaveUp(ctx)
}

// sendLocked has somebody stand in line if one waits and nobody holds.
func (c *chain) sendLocked() {
	if len(c.waiting) == 0 || c.place != nil || c.sent != nil {
		return
	}
	sent := new(struct{ callOff func() })
	c.sent = sent
	sent.callOff = c.line.Send(writeEntry(c.kind), func(place *queue.Place, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.sent != sent: // called off
			if place != nil {
				place.Abandon()
			}
			return
		case err == nil:
			c.beginLocked(place)
		default:
			for _, s := range c.waiting {
				s.err = err
				close(s.granted)
			}
			c.waiting = nil
		}
		c.sent = nil
	})
}

// beginLocked gives a place that has just been granted to the first who waits.
func (c *chain) beginLocked(place *queue.Place) {
	c.place, c.passed = place, 0
	place.OnEnd(func(error) { go c.leave(place) }) // those who wait do not wait for a holder who has lost it
	c.nextLocked()
}

func (c *chain) nextLocked() {
	s := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	s.place = c.place
	close(s.granted)
}

// handOn passes the place to the next who waits.
func (c *chain) handOn(place *queue.Place) bool {
	held := place.Look() == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place != place {
		return false
	}
	if !held || len(c.waiting) == 0 || c.passed >= c.limit {
		c.place = nil
		c.sendLocked()
		return false
	}
	c.passed++
	// From now on many depend on one node, and none of them deletes it and so
	// finds out that it is gone: have it watched.
	place.Life()
	c.nextLocked()
	return true
}

// leave takes the place out of the chain: it is lost, or not for writing any more.
func (c *chain) leave(place *queue.Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place == place {
		c.place = nil
		c.sendLocked()
	}
}

// quit is for one who does not wait any more. What it was given goes to the next.
func (c *chain) quit(s *successor) {
	c.mu.Lock()
	if i := slices.Index(c.waiting, s); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if len(c.waiting) == 0 && c.sent != nil {
			c.sent.callOff()
			c.sent = nil
		}
	}
	place := s.place
	c.mu.Unlock()
	if place != nil && !c.handOn(place) {
		place.Abandon()
	}
}
