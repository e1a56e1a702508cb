package rwlock

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/zkclient"
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
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	if busy {
		return nil, hold.ErrBusy
	}
	return c.line.Try(ctx, writeEntry(c.kind))
}

// unlock hands the place on, or gives it back. A node that is passed on must be known to be
// there: none of the holders that pass it on deletes it, and so would find out that it is gone. If
// that takes a question, ctx bounds the wait for its answer, as for that to a deletion.
func (c *chain) unlock(ctx context.Context, place *queue.Place) error {
	if c.limit == 0 {
		return place.Unlock(ctx)
	}
	switch handed, ask := c.handOn(place, place.Watched()); {
	case handed:
		return nil
	case !ask:
		return place.Unlock(ctx)
	case ctx.Done() == nil:
		return c.ask(ctx, place)
	}
	result := make(chan error, 1) // ctx may end first
	go func() { result <- c.ask(context.WithoutCancel(ctx), place) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w (the lock is being handed on in the background)", zkclient.Ended(ctx))
	}
}

// ask finds out whether the node is there, and then hands the place on or gives it back. Where
// the right to read the node is missing it cannot be known, and the place is handed on.
func (c *chain) ask(ctx context.Context, place *queue.Place) error {
	place.Exists(ctx)
	if handed, _ := c.handOn(place, true); handed {
		return nil
	}
	return place.Unlock(ctx)
}

// abandon is unlock for a goroutine that does not wait for the answer.
func (c *chain) abandon(place *queue.Place) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.unlock(ctx, place)
}

// wantedLocked reports whether the place will be handed on, unless it is lost.
func (c *chain) wantedLocked(place *queue.Place) bool {
	return c.place == place && len(c.waiting) > 0 && c.passed < c.limit
}

// watchLocked has the place watched as soon as it is known that it will be handed on: so that
// a loss of the node is noticed, and an Unlock seldom has to ask.
func (c *chain) watchLocked() {
	if c.place != nil && c.wantedLocked(c.place) {
		c.place.Life()
	}
}

func (c *chain) wait(ctx context.Context) (*queue.Place, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	s := &successor{granted: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, s)
	c.sendLocked()
	c.watchLocked()
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
	place.OnEnd(hold.CleanUp, func(error) { go c.leave(place) }) // no waiter waits for a holder that has lost it
	c.nextLocked()
	c.watchLocked()
}

func (c *chain) nextLocked() {
	s := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	s.place = c.place
	close(s.granted)
}

// handOn passes the place to the next who waits. It does not, and the caller has to ask, if all
// that is missing is that the node is known to be there.
func (c *chain) handOn(place *queue.Place, known bool) (handed, ask bool) {
	held := place.Look() == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case held && c.wantedLocked(place) && known:
		c.passed++
		c.nextLocked()
		return true, false
	case held && c.wantedLocked(place):
		return false, true
	}
	c.leaveLocked(place)
	return false, false
}

// withdraw takes the place of a hold out of the chain, before the hold changes it. It fails
// if the hold has ended. The look needs the mutex: Unlock ends its hold before it takes the
// mutex and hands the place on, so either the look sees that the hold has ended, or the
// hand-over sees that the place has gone from the chain. A look before the mutex would let
// the hold change the place of the next writer.
func (c *chain) withdraw(part *queue.Part) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := part.Look(); err != nil {
		return err
	}
	c.leaveLocked(part.Place)
	return nil
}

// leave takes a lost place out of the chain.
func (c *chain) leave(place *queue.Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked(place)
}

func (c *chain) leaveLocked(place *queue.Place) {
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
	if place != nil {
		c.abandon(place)
	}
}
