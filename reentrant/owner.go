package reentrant

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// ownership is a grant and the number of holds on it; guarded by Mutex.mu.
type ownership struct {
	mutex *Mutex
	grant *queue.Grant
	by    queue.Leaver // called at the end of the last hold; nil: its release deletes the node
	total int          // number of holds
	first owner        // the caller that queued

	spare []held
	batch int
}

// owner is a caller that has holds on a grant, see Mutex.caller; guarded by Mutex.mu.
type owner struct {
	of    *ownership
	id    int64
	holds int // not released
	// former is the record of the same caller for an earlier grant, which is lost and has holds
	// that are not released. Such a goroutine can enter the present grant only with the context of
	// another goroutine's hold.
	former *owner
}

// on returns the owner record of this caller for g, or nil.
func (o *owner) on(g *ownership) *owner {
	for o != nil && o.of != g {
		o = o.former
	}
	return o
}

// held is a hold, with the *zklocks.Hold that the caller gets.
type held = slot.Held[zklocks.Hold]

// addLocked counts a hold of the owner, and returns it; the caller must call slot.Give.
func (o *owner) addLocked() *held {
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
	return h
}

// maxBatch limits the size of a batch to a page of memory, because one referenced hold keeps its
// whole batch alive.
const maxBatch = 32

// End removes a hold from the counts, and reports whether it was the last on the grant.
func (o *owner) End() (last bool) {
	m := o.of.mutex
	m.mu.Lock()
	defer m.mu.Unlock()
	o.of.total--
	if o.holds--; o.holds == 0 {
		m.forgetLocked(o)
	}
	return o.of.total == 0
}

// forgetLocked removes an owner record without holds; caller holds mu.
func (m *Mutex) forgetLocked(o *owner) {
	last := m.owners[o.id]
	switch {
	case last != o:
		for last.former != o {
			last = last.former
		}
		last.former = o.former
	case o.former != nil:
		m.owners[o.id] = o.former
	default:
		delete(m.owners, o.id)
	}
}

// Leave ends a hold. The end of the last hold releases the lock.
func (o *owner) Leave(ctx context.Context, h *queue.Hold) error {
	switch {
	case !o.End():
		return nil
	case o.of.by != nil:
		return o.of.by.Leave(ctx, h)
	}
	return h.GiveBack(ctx)
}

// Context returns a context that also carries the ownership: a goroutine that calls Lock with it
// re-enters.
func (o *owner) Context(parent context.Context, h *queue.Hold) context.Context {
	return &holdContext{parent, o, h}
}

// holdContext is the context of a hold.
type holdContext struct {
	context.Context
	owner *owner
	hold  *queue.Hold
}

// ownerKey is the context key of the innermost holdContext of a Mutex.
type ownerKey struct{ m *Mutex }

func (c *holdContext) Value(key any) any {
	if key == (ownerKey{c.owner.of.mutex}) {
		return c
	}
	return c.Context.Value(key)
}
