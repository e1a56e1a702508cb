package liveness

import (
	"sync"
	"sync/atomic"
)

// createZxids tells the zxids of creates. The header of each reply carries one, which the client keeps to itself; for a create
// it is the czxid of the node, its fencing token.
type createZxids struct {
	pending atomic.Int64 // how many are expected, to be looked at without the mutex

	mu sync.Mutex
	of map[string]*PendingZxid // by the path of the create, as it is sent
}

// A PendingZxid is the zxid of one create.
type PendingZxid struct{ zxid atomic.Int64 }

// Zxid is 0 until the reply has come. That has happened when the client's call has returned without an error.
func (b *PendingZxid) Zxid() int64 { return b.zxid.Load() }

// Tell tells it.
func (b *PendingZxid) Set(zxid int64) { b.zxid.Store(zxid) }

// Track asks for the zxid of the create of a path, which must be one that nobody else creates: it carries a random id.
// forget is called when the call has returned.
func (l *Link) Track(path string) (b *PendingZxid, forget func()) {
	b = new(PendingZxid)
	l.createZxids.mu.Lock()
	defer l.createZxids.mu.Unlock()
	if l.createZxids.of == nil {
		l.createZxids.of = make(map[string]*PendingZxid)
	}
	l.createZxids.of[path] = b
	l.createZxids.pending.Add(1)
	return b, func() {
		l.createZxids.mu.Lock()
		defer l.createZxids.mu.Unlock()
		delete(l.createZxids.of, path)
		l.createZxids.pending.Add(-1)
	}
}

// Tracking says whether it is worth looking at what is sent.
func (l *Link) Tracking() bool { return l.createZxids.pending.Load() > 0 }

// Tracked returns the birth that a create of this path is, nil if nobody has asked for it.
func (l *Link) Tracked(path []byte) *PendingZxid {
	l.createZxids.mu.Lock()
	defer l.createZxids.mu.Unlock()
	return l.createZxids.of[string(path)]
}
