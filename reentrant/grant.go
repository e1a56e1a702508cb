package reentrant

import (
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// grant is one lock node and the holds on it. It is guarded by Mutex.mu.
type grant struct {
	mutex *Mutex
	place *queue.Place
	total int   // of holds; at 0 the grant is over
	first owner // the goroutine that stood in line, nearly always the only one

	spare []held
	batch int
}

// owner is a goroutine that has holds on a grant. It is guarded by Mutex.mu.
type owner struct {
	grant *grant
	id    int64 // the goroutine's number
	holds int   // that it has taken and not unlocked
	// former is the same goroutine as an owner of an earlier grant, which it has lost and not
	// unlocked: it has entered this one by the context of another goroutine's hold.
	former *owner
}

// on finds the goroutine as an owner of g; nil if it is none.
func (o *owner) on(g *grant) *owner {
	for o != nil && o.grant != g {
		o = o.former
	}
	return o
}

func newGrant(m *Mutex, place *queue.Place, id int64) *grant {
	g := &grant{mutex: m, place: place, batch: 1}
	g.first = owner{grant: g, id: id}
	return g
}

// add counts a hold, and returns it.
func (o *owner) add() *held {
	g := o.grant
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
	h.Begin(g.place)
	slot.Put(&h.public, h)
	return h
}

// maxBatch keeps what one forgotten hold keeps alive within a page.
const maxBatch = 32
