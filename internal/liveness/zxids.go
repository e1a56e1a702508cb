package liveness

import "sync/atomic"

// Track asks for the zxid of the create of a path. The header of each reply has one, which the zk
// client does not return. For a create it is the czxid of the node, its fencing token. zxid is 0
// before the reply arrives. If the zk client's call has returned without an error, it has arrived.
//
// No other create may use that path; it has a random id. The caller calls forget after the zk
// client's call has returned.
func (l *Link) Track(path string) (zxid *atomic.Int64, forget func()) {
	zxid = new(atomic.Int64)
	l.createZxids.Store(path, zxid)
	return zxid, func() { l.createZxids.Delete(path) }
}

// Tracked returns where package wire stores the zxid of the reply to the create of this path, or
// nil if no such create is tracked.
func (l *Link) Tracked(path []byte) *atomic.Int64 {
	zxid, _ := l.createZxids.Load(string(path))
	tracked, _ := zxid.(*atomic.Int64)
	return tracked
}
