package reentrant

import (
	"context"
	"errors"

	"github.com/zklocks/zklocks/internal/queue"
)

// ownership is one grant and the holds on it; guarded by Mutex.mu.
type ownership struct {
	mutex *Mutex
	grant *queue.Grant
	total int   // number of holds; at 0 the grant is released
	first owner // the caller that queued, nearly always the only one

	spare []held
	batch int
}

// owner is a caller that has holds on a grant, see Mutex.caller; guarded by Mutex.mu.
type owner struct {
	of    *ownership
	id    int64
	holds int // taken and not released
	// former is the same goroutine as an owner of an earlier grant, which it has lost and not
	// released: it entered the present grant with the context of another goroutine's hold.
	former *owner
}

// on returns the goroutine as an owner of g, or nil.
func (o *owner) on(g *ownership) *owner {
	for o != nil && o.of != g {
		o = o.former
	}
	return o
}

// add adds a hold and returns it.
func (o *owner) add() *held {
	g := o.of
	g.total++
	o.holds++
	// Holds are allocated in batches of growing size, because the allocation is most of the cost of
	// a re-entry. A hold is never reused: the caller may still use it after Release.
	if len(g.spare) == 0 {
		g.spare = make([]held, g.batch)
		g.batch = min(2*g.batch, maxBatch)
	}
	h := &g.spare[0]
	g.spare = g.spare[1:]
	h.owner = o
	h.Begin(g.grant)
	return h
}

// maxBatch limits what one hold that is still referenced keeps alive to a page.
const maxBatch = 32

// part is for zklocks.All, whose hold makes its caller the owner of the lock.
func (m *Mutex) part() queue.Part {
	return queue.Part{
		Queue: m.queue, Request: m.request,
		Ready: m.refuse,
		Own:   func(grant *queue.Grant) queue.Owner { return partOwner{m.begin(grant, m.caller())} },
	}
}

var errOwned = errors.New("the caller holds the lock already")

// refuse returns an error to a caller that owns the lock: Lock would enter it again, or find it
// lost.
func (m *Mutex) refuse(ctx context.Context, _ bool) error {
	h := m.carried(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.owners[m.caller()]
	if h != nil && h.owner.of.total > 0 {
		o = h.owner
	}
	if o == nil {
		return nil
	}
	if err := o.of.grant.Err(); err != nil {
		return err
	}
	return errOwned
}

// partOwner is the hold on a grant that belongs to several locks together.
type partOwner struct{ h *held }

func (p partOwner) Context(parent context.Context) context.Context {
	return &holdContext{parent, p.h}
}

func (p partOwner) End() (last bool) {
	_ = p.h.End()
	return p.h.mutex().unhold(p.h.owner)
}
