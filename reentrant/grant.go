package reentrant

import "github.com/zklocks/zklocks/internal/queue"

// grant is one lock node and the holds on it. It is guarded by Mutex.mu.
type grant struct {
	place *queue.Place
	total int // of holds; at 0 the grant is over

	// The holds by the number of the goroutine that took them. Nearly always
	// that is the one that stood in line, which needs no map.
	first  int64
	own    int
	others map[int64]int

	spare []Hold
	batch int
}

func newGrant(place *queue.Place, owner int64) *grant {
	return &grant{place: place, first: owner, batch: 1}
}

// taken is how many holds a goroutine has taken and not unlocked.
func (g *grant) taken(by int64) int {
	if by == g.first {
		return g.own
	}
	return g.others[by]
}

// add counts a hold, and returns it.
func (g *grant) add(m *Mutex, by int64) *Hold {
	g.total++
	if by == g.first {
		g.own++
	} else {
		if g.others == nil {
			g.others = make(map[int64]int)
		}
		g.others[by]++
	}
	// Holds are made several at a time, and more each time: that is most of what
	// a re-entry would cost. They are never used twice, for their holder may ask
	// an old one.
	if len(g.spare) == 0 {
		g.spare = make([]Hold, g.batch)
		g.batch = min(2*g.batch, maxBatch)
	}
	h := &g.spare[0]
	g.spare = g.spare[1:]
	h.mutex, h.grant, h.owner = m, g, by
	h.part.Begin(g.place)
	return h
}

// maxBatch keeps what one forgotten hold keeps alive within a page.
const maxBatch = 32

// remove counts a hold out, and returns how many the goroutine has left.
func (g *grant) remove(by int64) int {
	g.total--
	if by == g.first {
		g.own--
		return g.own
	}
	left := g.others[by] - 1
	if g.others[by] = left; left == 0 {
		delete(g.others, by)
	}
	return left
}
