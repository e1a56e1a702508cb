package liveness

import (
	"sync"
	"sync/atomic"
)

// createZxids collects the zxids of creates. The header of each reply has one, which the zk client
// does not return. For a create it is the czxid of the node, its fencing token.
type createZxids struct {
	pending atomic.Int64 // len(of), which package wire reads without the mutex for each packet it sends

	mu sync.Mutex
	of map[string]*PendingZxid // by the path in the create request
}

// A PendingZxid is the zxid of one create, known once the reply arrives.
type PendingZxid struct{ zxid atomic.Int64 }

// Zxid returns 0 before the reply arrives. If the zk client's call has returned without an error,
// the reply has arrived.
func (b *PendingZxid) Zxid() int64 { return b.zxid.Load() }

// Set is called by package wire when the reply arrives.
func (b *PendingZxid) Set(zxid int64) { b.zxid.Store(zxid) }

// Track asks for the zxid of the create of a path. No other create may use that path; it has a
// random id. The caller calls forget after the zk client's call has returned.
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

// Tracking reports whether any create is tracked. If none is, package wire does not parse what it
// sends.
func (l *Link) Tracking() bool { return l.createZxids.pending.Load() > 0 }

// Tracked returns the PendingZxid of the create of this path, or nil if the create is not tracked.
func (l *Link) Tracked(path []byte) *PendingZxid {
	l.createZxids.mu.Lock()
	defer l.createZxids.mu.Unlock()
	return l.createZxids.of[string(path)]
}
