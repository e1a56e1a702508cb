package wire

import (
	"encoding/binary"
	"math"
)

// A mark is a node that is created and deleted in the same transaction that deletes the node it
// belongs to, so no client ever reads it. But a waiter that watches for its creation gets an event,
// and so knows that the owner deleted the node. Watching both takes no more requests than watching
// one.
//
// A server keeps a watch for the creation of a node until the node is created. So when a node is
// deleted without its mark, the packetConn removes that watch (RemoveWatches, in servers from 3.5
// on; on older ones no more marks are watched).

// xidUnwatch is the xid of RemoveWatches, as xidWatches is that of SetWatches.
const xidUnwatch = -9

// The types of watches.
const (
	childWatches = 1
	dataWatches  = 2 // also on nodes to be created
)

// unwatch removes the watch on a mark or on another node, unless a waiter watches that again.
func (w *packetConn) unwatch(path string, watchType uint32) {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+4+len(path)+4))
	p = binary.BigEndian.AppendUint32(p, xidUnwatch&math.MaxUint32)
	p = binary.BigEndian.AppendUint32(p, opRemoveWatches)
	p = appendString(p, path)
	p = binary.BigEndian.AppendUint32(p, watchType)
	resend := func() { w.unwatch(path, watchType) }
	w.send(packet{xid: xidUnwatch, op: opRemoveWatches, resend: resend}, p, func() bool {
		return w.watches.marks[path] == nil && len(w.watches.of[path]) == 0
	})
}
