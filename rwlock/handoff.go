package rwlock

import (
	"context"
	"slices"
	"sync"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// handoff passes the write lock on among the writers of one RWMutex value. One of them at a time
// has a node in the queue; the others wait in waiting. A holder that releases passes its grant on,
// up to limit times in a series. Then it deletes the node, and the next writer queues at the tail.
type handoff struct {
	queue   *queue.Queue
	request queue.Request
	limit   int

	mu      sync.Mutex          // tier 1; not held during calls that may block; guards the fields below
	busy    bool                // a writer queues or holds
	waiting []chan *queue.Grant // the other writers, in the order of arrival; a writer that receives nil queues
	grant   *queue.Grant        // the grant of the writer that holds; or nil
	passed  int                 // how often grant was passed on
}

func (c *handoff) lock(ctx context.Context) (*queue.Grant, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	turn := make(chan *queue.Grant, 1)
	c.mu.Lock()
	if !c.busy {
		c.busy = true
		turn <- nil
	} else {
		c.waiting = append(c.waiting, turn)
		c.watchLocked()
	}
	c.mu.Unlock()
	select {
	case grant := <-turn:
		switch {
		case grant != nil && ctx.Err() == nil:
			return grant, nil
		case grant != nil:
			_ = c.release(queue.NoWait, grant)
			return nil, zkclient.Ended(ctx)
		}
	case <-ctx.Done():
		c.mu.Lock()
		i := slices.Index(c.waiting, turn)
		if i >= 0 {
			c.waiting = slices.Delete(c.waiting, i, i+1)
		}
		c.mu.Unlock()
		if i < 0 {
			if grant := <-turn; grant != nil {
				_ = c.release(queue.NoWait, grant)
			} else {
				c.next()
			}
		}
		return nil, c.queue.Canceled(ctx, c.request, i+1) // the writers in front of it, and the writer that queues or holds
	}
	grant, err := c.queue.Acquire(ctx, c.request, true)
	if err != nil {
		c.next()
		return nil, err
	}
	c.mu.Lock()
	c.grant, c.passed = grant, 0
	c.watchLocked()
	c.mu.Unlock()
	grant.OnEnd(func(error) { go c.over(grant) }) // the next writer does not wait for the holder of a lost grant
	return grant, nil
}

func (c *handoff) try(ctx context.Context) (*queue.Grant, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy {
		return nil, hold.ErrBusy
	}
	return c.queue.Acquire(ctx, c.request, false)
}

func (c *handoff) Leave(ctx context.Context, h *queue.Hold) error { return c.release(ctx, h.Grant) }

// release passes the grant on, or deletes its node. ctx bounds the wait for the answer of a
// request, also if the request must prove that the node exists.
func (c *handoff) release(ctx context.Context, grant *queue.Grant) error {
	passed, unproved := c.pass(grant)
	switch {
	case passed:
		return nil
	case unproved:
		return grant.Finish(ctx, "the lock is being handed on", func() error {
			if grant.Exists(context.WithoutCancel(ctx)) { // false if the right to read the node is missing
				if passed, _ := c.pass(grant); passed {
					return nil
				}
			}
			return c.remove(ctx, grant)
		})
	}
	return c.remove(ctx, grant)
}

// pass passes the grant on if a writer waits for it and the node is known to exist: a holder that
// passes its grant on does not delete the node, and so would not detect that it is gone. unproved
// reports that pass would have passed the grant on if the node were known to exist.
func (c *handoff) pass(grant *queue.Grant) (passed, unproved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.wantedLocked() || c.grant != grant || grant.Err() != nil: // invariant 7
		return false, false
	case !grant.KnownToExist():
		return false, true
	}
	//invariant 7: c.passed < c.limit
	c.passed++
	c.waiting[0] <- grant
	c.waiting = slices.Delete(c.waiting, 0, 1)
	return true, false
}

// remove ends the series of handoffs, and deletes the node.
func (c *handoff) remove(ctx context.Context, grant *queue.Grant) error {
	err := grant.Release(ctx)
	c.over(grant)
	return err
}

// wantedLocked reports whether the grant will be passed on, unless it is lost; caller holds mu.
func (c *handoff) wantedLocked() bool { return len(c.waiting) > 0 && c.passed < c.limit }

// watchLocked sets a watch on the node once the grant will be passed on; caller holds mu.
func (c *handoff) watchLocked() {
	if c.grant != nil && c.wantedLocked() {
		c.grant.WatchNodes()
	}
}

// over ends the series of handoffs of a grant, if it has not ended.
func (c *handoff) over(grant *queue.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grant == grant {
		c.grant = nil
		c.nextLocked()
	}
}

// next makes the next writer queue.
func (c *handoff) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextLocked()
}

func (c *handoff) nextLocked() {
	if c.busy = len(c.waiting) > 0; c.busy {
		c.waiting[0] <- nil
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
}

// withdraw ends the series of a hold's grant before the hold changes the grant. It fails if the
// hold has ended. A hold ends before pass locks mu, so a grant that was passed on is not withdrawn.
func (c *handoff) withdraw(h *queue.Hold) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := h.Err(); err != nil {
		return err
	}
	if c.grant == h.Grant {
		c.grant = nil
		c.nextLocked()
	}
	return nil
}
