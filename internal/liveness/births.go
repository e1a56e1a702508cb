package liveness

import (
	"sync"
	"sync/atomic"
)

// births tells the zxids of creates. The header of each reply carries one, which the client keeps to itself; for a create
// it is the czxid of the node, its fencing token.
type births struct {
	waiting atomic.Int64 // how many are expected, to be looked at without the mutex

	mu sync.Mutex
	of map[string]*Birth // by the path of the create, as it is sent
}

// A Birth is the zxid of one create.
type Birth struct{ zxid atomic.Int64 }

// Zxid is 0 until the reply has come. That has happened when the client's call has returned without an error.
func (b *Birth) Zxid() int64 { return b.zxid.Load() }

// Tell tells it.
func (b *Birth) Tell(zxid int64) { b.zxid.Store(zxid) }

// Expect asks for the zxid of the create of a path, which must be one that nobody else creates: it carries a random id.
// forget is called when the call has returned.
func (l *Link) Expect(path string) (b *Birth, forget func()) {
	b = new(Birth)
	l.births.mu.Lock()
	defer l.births.mu.Unlock()
	if l.births.of == nil {
		l.births.of = make(map[string]*Birth)
	}
	l.births.of[path] = b
	l.births.waiting.Add(1)
	return b, func() {
		l.births.mu.Lock()
		defer l.births.mu.Unlock()
		delete(l.births.of, path)
		l.births.waiting.Add(-1)
	}
}

// Expecting says whether it is worth looking at what is sent.
func (l *Link) Expecting() bool { return l.births.waiting.Load() > 0 }

// Expected returns the birth that a create of this path is, nil if nobody has asked for it.
func (l *Link) Expected(path []byte) *Birth {
	l.births.mu.Lock()
	defer l.births.mu.Unlock()
	return l.births.of[string(path)]
}
