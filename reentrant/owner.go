package reentrant

import (
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// ownership is one grant and the holds on it. It is guarded by Mutex.mu.
type ownership struct {
	mutex *Mutex
	grant *queue.Grant
	total int   // of holds; at 0 the grant is released
	first owner // the goroutine that queued, nearly always the only one

	spare []held
	batch int
}

// owner is a goroutine that has holds on a grant. It is guarded by Mutex.mu.
type owner struct {
	of    *ownership
	id    int64 // the goroutine's number
	holds int   // that it has taken and not unlocked
	// former is the same goroutine as an owner of an earlier grant, which it has lost and not
	// unlocked: it has entered this one by the context of another goroutine's hold.
	former *owner
}

// on finds the goroutine as an owner of g; nil if it is none.
func (o *owner) on(g *ownership) *owner {
	for o != nil && o.of != g {
		o = o.former
	}
	return o
}

func newOwnership(m *Mutex, grant *queue.Grant, id int64) *ownership {
	g := &ownership{mutex: m, grant: grant, batch: 1}
	g.first = owner{of: g, id: id}
	return g
}

// add counts a hold, and returns it.
func (o *owner) add() *held {
	g := o.of
	g.total++
	o.holds++
	// Holds are made several at a time, and more each time: that is most of what
	// a re-entry would cost. They are never used twice, for their holder may ask
	// an old one.
	if len(g.spare) == 0 {
		g.spare = make([]held, g.batch)
		g.batch = min(2*g.batch, maxBatch)
	}
	h := &g.spare[0]
	g.spare = g.spare[1:]
	h.owner = o
	h.Begin(g.grant)
	slot.Put(&h.public, h)
	return h
}

// maxBatch keeps what one forgotten hold keeps alive within a page.
const maxBatch = 32
