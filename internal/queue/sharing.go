package queue

import (
	"context"
	"sync/atomic"

	"github.com/zklocks/zklocks/internal/znode"
)

// NodeSharing decides whether other readers of one rwlock.RWMutex may use the node of the first,
// queued or granted, instead of creating their own. They may, as long as no writer is known to be
// queued behind the node. Its methods may be called from any goroutine.
type NodeSharing struct {
	queue *Queue
	at    atomic.Int64 // the node's number + 1; 0: the queue behind it has not been looked at yet
}

// NewSharing returns the sharing of a node that is not yet created.
func (q *Queue) NewSharing() *NodeSharing { return &NodeSharing{queue: q} }

func (s *NodeSharing) queuedAt(n znode.Node) { s.at.Store(n.Seq + 1) }

// CanJoin reports whether another reader may use the node. Before the first listing each may: no
// writer behind the node is known, and readers that wait for the same listing count as coming
// together.
func (s *NodeSharing) CanJoin() bool {
	if s.at.Load() == 0 {
		return true
	}
	if s.view() == nil {
		return false
	}
	s.queue.view.expires()
	return true
}

// view returns the view that shows no writer behind the node; nil if there is none.
func (s *NodeSharing) view() *view {
	v := s.queue.view.now.Load()
	if !v.valid() || v.newest >= s.at.Load()-1 {
		return nil
	}
	return v
}

// Unwatched reports whether the listing that showed no writer behind the node has set no watch, so
// that EnsureWatch may help.
func (s *NodeSharing) Unwatched() bool { return s.unwatched(s.queue.view.now.Load()) }

func (s *NodeSharing) unwatched(v *view) bool {
	return v != nil && v.writers == nil && v.newest < s.at.Load()-1
}

// EnsureWatch sets the watch that the listing has done without. If the directory's data are still
// those of that listing, no writer has come in between. It reports whether it has asked the server.
func (s *NodeSharing) EnsureWatch(ctx context.Context) (asked bool) {
	d := &s.queue.view
	v := d.now.Load()
	if !s.unwatched(v) {
		return false
	}
	w := s.queue.watchWriters(ctx, v.session)
	if w == nil {
		return true
	}
	var now *view
	if w.Stat.Mzxid == v.mzxid {
		copied := *v
		copied.writers = w
		now = &copied
	}
	d.now.CompareAndSwap(v, now)
	return true
}
