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

// dataWatches is the type of watches on data and on nodes to be created.
const dataWatches = 2

// unwatch removes the watch on a mark, unless a waiter watches it again.
func (w *packetConn) unwatch(mark string) {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+4+len(mark)+4))
	p = binary.BigEndian.AppendUint32(p, xidUnwatch&math.MaxUint32)
	p = binary.BigEndian.AppendUint32(p, opRemoveWatches)
	p = appendString(p, mark)
	p = binary.BigEndian.AppendUint32(p, dataWatches)
	resend := func() { w.unwatch(mark) }
	w.send(packet{xid: xidUnwatch, op: opRemoveWatches, resend: resend}, p, func() bool {
		_, again := w.watches.marks[mark]
		return !again
	})
}
