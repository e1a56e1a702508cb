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

// handoff passes the write lock on among the writers of one RWMutex value. The local waiters have one node in the queue for all
// of them. A holder that releases passes its grant to the next local waiter, a limited number of times in a row; then the node
// is deleted, and the next local waiter queues at the tail.
type handoff struct {
	queue *queue.Queue
	kind  znode.Kind
	limit int // 0: nothing is handed on

	mu      sync.Mutex      // held while no other package is called that may wait
	waiting []*localWaiter  // in the order of arrival
	pending *pendingAcquire // a grant for them is on its way; or nil
	grant   *queue.Grant    // what one of them holds; or nil
	passed  int             // how often that was handed on
}

// pendingAcquire is one AcquireAsync.
type pendingAcquire struct{ cancel func() }

// localWaiter is a writer that waits. Once granted is closed it has a grant or an error.
type localWaiter struct {
	granted chan struct{}
	grant   *queue.Grant
	err     error
}

func (c *handoff) request() queue.Request { return queue.Request{Kind: c.kind, Nodes: 1} }

func (c *handoff) lock(ctx context.Context) (*queue.Grant, error) {
	if c.limit == 0 {
		return c.queue.Wait(ctx, c.request())
	}
	for {
		grant, err := c.wait(ctx)
		if err != nil || grant.Err() == nil {
			return grant, err
		}
		c.drop(grant) // it was lost on the way
	}
}

func (c *handoff) try(ctx context.Context) (*queue.Grant, error) {
	c.mu.Lock()
	busy := c.grant != nil || len(c.waiting) > 0
	c.mu.Unlock()
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	if busy {
		return nil, hold.ErrBusy
	}
	return c.queue.Try(ctx, c.request())
}

// release hands the grant on, or gives it back. A node that is handed on must be known to exist: the holders that pass it on do
// not delete it, and so would not find out that it is gone. If that takes a question, ctx bounds the wait for its answer, as
// for the answer to a deletion.
func (c *handoff) release(ctx context.Context, grant *queue.Grant) error {
	if c.limit == 0 {
		return grant.Release(ctx)
	}
	switch handed, ask := c.handOn(grant, grant.Watched()); {
	case handed:
		return nil
	case !ask:
		return grant.Release(ctx)
	case ctx.Done() == nil:
		return c.ask(ctx, grant)
	}
	result := make(chan error, 1) // ctx may end first
	go func() { result <- c.ask(context.WithoutCancel(ctx), grant) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w (the lock is being handed on in the background)", zkclient.Ended(ctx))
	}
}

// ask finds out whether the node exists, and then hands the grant on or gives it back. Where the right to read the node is
// missing it cannot be known, and the grant is handed on.
func (c *handoff) ask(ctx context.Context, grant *queue.Grant) error {
	grant.Exists(ctx)
	if handed, _ := c.handOn(grant, true); handed {
		return nil
	}
	return grant.Release(ctx)
}

// releaseAsync is release for a goroutine that does not wait for the answer.
func (c *handoff) releaseAsync(grant *queue.Grant) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.release(ctx, grant)
}

// wantedLocked reports whether the grant will be handed on, unless it is lost.
func (c *handoff) wantedLocked(grant *queue.Grant) bool {
	return c.grant == grant && len(c.waiting) > 0 && c.passed < c.limit
}

// watchLocked has the node watched as soon as it is known that it will be handed on: so its deletion is noticed, and a release
// seldom has to ask.
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
	c.quit(w)
	return nil, c.queue.CanceledError(ctx)
}

// acquireLocked queues for the local waiters, if there are any and none of them holds.
func (c *handoff) acquireLocked() {
	if len(c.waiting) == 0 || c.grant != nil || c.pending != nil {
		return
	}
	pending := new(pendingAcquire)
	c.pending = pending
	pending.cancel = c.queue.AcquireAsync(c.request(), func(grant *queue.Grant, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.pending != pending: // canceled
			if grant != nil {
				grant.ReleaseAsync()
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

// beginLocked gives a new grant to the first local waiter.
func (c *handoff) beginLocked(grant *queue.Grant) {
	c.grant, c.passed = grant, 0
	grant.OnEnd(hold.CleanUp, func(error) { go c.drop(grant) }) // no waiter waits for a holder that has lost it
	c.nextLocked()
	c.watchLocked()
}

func (c *handoff) nextLocked() {
	w := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	w.grant = c.grant
	close(w.granted)
}

// handOn passes the grant to the next local waiter. It does not, and the caller has to ask, if all that is missing is that the
// node is known to exist.
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

// withdraw takes the grant of a hold out of the handoff, before the hold changes it. It fails if the hold has ended. The look
// needs the mutex: Release ends its hold before it takes the mutex and hands the grant on, so either the look sees that the
// hold has ended, or the hand-over sees that the grant has been taken out. A look before the mutex would let the hold change
// the grant of the next writer.
func (c *handoff) withdraw(h *queue.Hold) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := h.Err(); err != nil {
		return err
	}
	c.dropLocked(h.Grant)
	return nil
}

// drop takes a lost grant out.
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

// quit is for a writer that stops waiting. What it was given goes to the next.
func (c *handoff) quit(w *localWaiter) {
	c.mu.Lock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if len(c.waiting) == 0 && c.pending != nil {
			c.pending.cancel()
			c.pending = nil
		}
	}
	grant := w.grant
	c.mu.Unlock()
	if grant != nil {
		c.releaseAsync(grant)
	}
}
