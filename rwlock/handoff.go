package rwlock

import (
	"context"
	"slices"
	"sync"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// handoff passes the write lock on among the writers of one RWMutex value. The local waiters share
// one node in the queue. A holder that releases passes its grant to the next local waiter, a
// limited number of times in a row; then it deletes the node, and the next local waiter queues at
// the tail.
type handoff struct {
	queue   *queue.Queue
	request queue.Request
	limit   int // 0: no handoff

	mu      sync.Mutex      // not held during calls of other packages that may block
	waiting []*localWaiter  // in the order of arrival
	pending *pendingAcquire // a request for a grant is under way; or nil
	grant   *queue.Grant    // the grant that one of the writers holds; or nil
	passed  int             // number of handoffs of this grant
}

// pendingAcquire is one AcquireAsync.
type pendingAcquire struct{ giveUp func(error) }

// localWaiter is a waiting writer. When granted is closed, grant or err is set.
type localWaiter struct {
	granted chan struct{}
	grant   *queue.Grant
	err     error
}

func (c *handoff) lock(ctx context.Context) (*queue.Grant, error) {
	if c.limit == 0 {
		return c.queue.Acquire(ctx, c.request, true)
	}
	for {
		grant, err := c.wait(ctx)
		if err != nil || grant.Err() == nil {
			return grant, err
		}
		c.drop(grant) // lost before this waiter got it
	}
}

func (c *handoff) try(ctx context.Context) (*queue.Grant, error) {
	c.mu.Lock()
	busy := c.grant != nil || len(c.waiting) > 0
	c.mu.Unlock()
	if zkclient.Ended(ctx) != nil {
		return nil, c.queue.CanceledError(ctx)
	}
	if busy {
		return nil, hold.ErrBusy
	}
	return c.queue.Acquire(ctx, c.request, false)
}

// release hands the grant over, or releases it. Before a handoff the node must be known to exist: a
// holder that hands over does not delete the node, so it would not find out that the node is gone.
// If that takes a request, ctx bounds the wait for the answer, as it does for a deletion.
func (c *handoff) release(ctx context.Context, grant *queue.Grant) error {
	if c.limit == 0 {
		return grant.Release(ctx)
	}
	switch handed, ask := c.handOn(grant, grant.KnownToExist()); {
	case handed:
		return nil
	case !ask:
		return grant.Release(ctx)
	}
	return c.queue.Client().Finish(ctx, "the lock is being handed on", func() error {
		return c.ask(context.WithoutCancel(ctx), grant)
	})
}

// ask finds out whether the node exists, then hands the grant over or releases it. If the client
// cannot read the node, it cannot find out, and hands the grant over.
func (c *handoff) ask(ctx context.Context, grant *queue.Grant) error {
	grant.Exists(ctx)
	if handed, _ := c.handOn(grant, true); handed {
		return nil
	}
	return grant.Release(ctx)
}

// wantedLocked reports whether the grant will be handed over, unless it is lost; caller holds mu.
func (c *handoff) wantedLocked(grant *queue.Grant) bool {
	return c.grant == grant && len(c.waiting) > 0 && c.passed < c.limit
}

// watchLocked starts to watch the node as soon as the grant will be handed over. So a deletion of
// the node is noticed, and release seldom needs a request; caller holds mu.
func (c *handoff) watchLocked() {
	if c.grant != nil && c.wantedLocked(c.grant) {
		c.grant.State()
	}
}

func (c *handoff) wait(ctx context.Context) (*queue.Grant, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	w := &localWaiter{granted: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	c.acquireLocked()
	c.watchLocked()
	c.mu.Unlock()
	select {
	case <-w.granted:
		if w.err != nil || ctx.Err() == nil {
			return w.grant, w.err
		}
	case <-ctx.Done():
	}
	c.quit(w, zkclient.Ended(ctx))
	return nil, c.queue.CanceledError(ctx)
}

// acquireLocked queues for the local waiters, if there are any and none of them holds; caller holds
// mu.
func (c *handoff) acquireLocked() {
	if len(c.waiting) == 0 || c.grant != nil || c.pending != nil {
		return
	}
	pending := new(pendingAcquire)
	c.pending = pending
	pending.giveUp = c.queue.AcquireAsync(c.request, func(grant *queue.Grant, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.pending != pending: // canceled
			if grant != nil {
				_ = grant.Release(queue.NoWait)
			}
			return
		case err == nil:
			c.beginLocked(grant)
		default:
			for _, w := range c.waiting {
				w.err = err
				close(w.granted)
			}
			c.waiting = nil
		}
		c.pending = nil
	})
}

// beginLocked gives a new grant to the first local waiter; caller holds mu.
func (c *handoff) beginLocked(grant *queue.Grant) {
	c.grant, c.passed = grant, 0
	grant.OnEnd(hold.CleanUp, func(error) { go c.drop(grant) }) // do not wait for the holder to release a lost grant
	c.nextLocked()
	c.watchLocked()
}

func (c *handoff) nextLocked() {
	w := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	w.grant = c.grant
	close(w.granted)
}

// handOn passes the grant to the next local waiter (invariant 7 of package queue). It reports ask
// if it did not, only because the node is not known to exist; the caller must ask.
func (c *handoff) handOn(grant *queue.Grant, known bool) (handed, ask bool) {
	held := grant.Err() == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case held && c.wantedLocked(grant) && known:
		c.passed++
		c.nextLocked()
		return true, false
	case held && c.wantedLocked(grant):
		return false, true
	}
	c.dropLocked(grant)
	return false, false
}

// withdraw removes the grant of a hold from the handoff, before the hold changes it. It fails if
// the hold has ended. It checks the hold under mu: Release ends its hold before it locks mu and
// hands the grant over, so either withdraw sees that the hold has ended, or the handoff sees that
// the grant was removed. With a check before mu, a hold that has ended could take the grant of the
// next writer out of the handoff.
func (c *handoff) withdraw(h *queue.Hold) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := h.Err(); err != nil {
		return err
	}
	c.dropLocked(h.Grant)
	return nil
}

// drop removes a lost grant.
func (c *handoff) drop(grant *queue.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(grant)
}

func (c *handoff) dropLocked(grant *queue.Grant) {
	if c.grant == grant {
		c.grant = nil
		c.acquireLocked()
	}
}

// quit is called by a writer that stops waiting because of err. If it was granted the lock
// meanwhile, the grant goes to the next waiter.
func (c *handoff) quit(w *localWaiter, err error) {
	c.mu.Lock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if len(c.waiting) == 0 && c.pending != nil {
			c.pending.giveUp(err)
			c.pending = nil
		}
	}
	grant := w.grant
	c.mu.Unlock()
	if grant != nil {
		grant.GiveUp(err)
		_ = c.release(queue.NoWait, grant)
	}
}
