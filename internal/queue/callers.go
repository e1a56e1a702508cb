package queue

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// Callers are the callers of one lock value that make the same request. They share grants, see
// Tenure: readers hold together and wait together. Others hold one after the other: one of them has
// a node in the queue, and the rest wait in line in the process.
type Callers struct {
	queue   *Queue
	request Request
	Sharing

	mu      sync.Mutex // tier 1; guards what follows, Tenure.waiting and Tenure.passed
	keeper  keeper
	pending *Tenure                // queued, for callers to wait for; nil: none
	current atomic.Pointer[Tenure] // granted last, to enter or to wait for; written under mu
}

// Sharing says how callers share grants. The zero Sharing: each has a grant of its own.
type Sharing struct {
	Together bool          // they hold together
	Passes   int           // otherwise: how often a grant is passed on although other clients may wait
	MaxIdle  time.Duration // how long a grant without a hold is kept
}

// A caller waits for a tenure: for its grant, or in line for its turn.
type caller struct {
	at   *Tenure    // guarded by Callers.mu
	turn chan error // receives once: nil if the caller holds
}

// NewCallers returns the callers of a lock value that make the request r.
func (q *Queue) NewCallers(r Request, s Sharing) *Callers {
	return &Callers{queue: q, request: r, Sharing: s, keeper: keeper{debt: firstDebt}}
}

// Acquire enters a grant, or waits for one. A nil Leaver means that the grant has one hold.
func (of *Callers) Acquire(ctx context.Context, wait bool) (*Grant, Leaver, error) {
	if of.Sharing == (Sharing{}) || of.queue.err != nil {
		g, err := of.queue.Join(ctx, of.request, wait)
		return g, nil, err
	}
	t, err := of.acquire(ctx, wait)
	if err != nil {
		return nil, nil, err
	}
	return t.grant, t, nil
}

func (of *Callers) acquire(ctx context.Context, wait bool) (*Tenure, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	if t := of.current.Load(); t != nil && t.join(ctx) {
		return t, nil
	}
	if wait {
		return of.wait(ctx)
	}
	return of.try(ctx)
}

// EndIdle releases the grant if it is idle, for another caller of the value that is about to queue
// behind it.
func (of *Callers) EndIdle(ctx context.Context) {
	if t := of.current.Load(); t != nil {
		_ = t.endIdle(ctx)
	}
}

// Withdraw ends the tenure of a hold before the hold changes its grant. It fails if the hold has
// ended. A release ends its hold first, and passes the grant on later. So a hold that lives, seen
// under mu, still has its grant.
func (of *Callers) Withdraw(h *Hold) error {
	of.mu.Lock()
	defer of.mu.Unlock()
	err := h.Err()
	if t, ok := h.leaver.(*Tenure); ok && t.of == of && err == nil {
		of.followLocked(t)
	}
	return err
}

// try acquires without waiting for another caller of the process or for another client. If grants
// are kept, the holder may be idle: then it queues for as long as an idle holder takes to leave.
func (of *Callers) try(ctx context.Context) (*Tenure, error) {
	of.mu.Lock()
	t := of.current.Load()
	busy := !of.Together && (of.pending != nil || t != nil && t.users.Load() > 0)
	of.mu.Unlock()
	if busy {
		return nil, hold.ErrBusy
	}
	t, request := of.tenure()
	request.tries = of.MaxIdle > 0
	grant, err := of.queue.Join(ctx, request, request.tries)
	if err != nil {
		return nil, err
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.beginLocked(t, grant, 1)
	return t, nil
}

// wait waits in line, or together with others.
func (of *Callers) wait(ctx context.Context) (*Tenure, error) {
	of.mu.Lock()
	// More readers may share the acquire; it may have listed since the last answer.
	for t, may := of.pending, yes; t != nil && of.Together && may == yes && t.shared.may() == unknown; t = of.pending {
		of.mu.Unlock()
		may = t.shared.ask(ctx)
		of.mu.Lock()
	}
	t, current := of.pending, of.current.Load()
	switch {
	case t != nil && (!of.Together || t.shared.may() == yes):
	case of.Together || current == nil:
		t = of.queueLocked(nil)
	case current.may() == yes && current.enter(): // it is idle since
		of.mu.Unlock()
		return current, nil
	case current.users.Load() > 0:
		t = current
	default:
		t = of.queueLocked(nil)
	}
	c := &caller{t, make(chan error, 1)}
	t.waiting = append(t.waiting, c)
	t.watchLocked()
	of.mu.Unlock()
	select {
	case err := <-c.turn:
		if end := zkclient.Ended(ctx); err == nil && end != nil {
			_ = c.at.Leave(NoWait, nil)
			err = end
		}
		return c.at, err
	case <-ctx.Done():
		return nil, of.quit(ctx, c)
	}
}

// quit is called by a caller whose ctx has ended, and returns its error.
func (of *Callers) quit(ctx context.Context, c *caller) error {
	of.mu.Lock()
	t := c.at
	i, queued := slices.Index(t.waiting, c), t.grant == nil
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	last := i >= 0 && queued && len(t.waiting) == 0
	if last {
		t.giveUp()
		if of.pending == t {
			of.pending = nil
		}
	}
	of.mu.Unlock()
	if i < 0 && <-c.turn == nil { // its turn has come
		_ = t.Leave(NoWait, nil)
	}
	ahead := t.ahead.Load()
	switch {
	case !queued:
		ahead = int64(i) + 1 // those in front of it, and the holder
	case !of.Together && i > 0:
		ahead = int64(i)
	}
	err := of.queue.behind(ctx, zkclient.Ended(ctx), of.request, ahead, "")
	if last {
		err = leaving(of.queue.client, err, t.left)
	}
	return err
}
