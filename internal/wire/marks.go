package wire

import (
	"encoding/binary"
	"math"
)

// A mark is a node that is made and deleted in the transaction that deletes the node it belongs to,
// so nobody ever sees it: but whoever waits for its creation is told, and knows more than that a
// node has gone. Waiting for both takes no request more than waiting for one.
//
// Of a watch on the creation of a node the server keeps hold until that happens. So when a node
// goes without its mark, the wire takes that watch back (RemoveWatches, in servers from 3.5 on;
// those before it get no more of them).

// xidUnwatch is that of this request, as xidWatches is that of the other.
const xidUnwatch = -9

// marks are those that one wire waits for: the path of the node for that of its mark. Two who wait
// for one node may wait for different marks of it.
type marks map[string]string

// unwatch takes the watch on a mark back, unless somebody waits for it again.
func (w *wire) unwatch(mark string) {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+4+len(mark)+4))
	p = binary.BigEndian.AppendUint32(p, xidUnwatch&math.MaxUint32)
	p = binary.BigEndian.AppendUint32(p, opRemoveWatches)
	p = appendString(p, mark)
	p = binary.BigEndian.AppendUint32(p, dataWatches)
	again := func() { w.unwatch(mark) }
	w.send(packet{xid: xidUnwatch, op: opRemoveWatches, again: again}, p, func() bool { return !w.watches.waitFor(mark) })
}

// waitFor reports whether somebody waits for a mark.
func (s *watches) waitFor(mark string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.marks[mark]
	return waits
}

// dataWatches are those on data, and on nodes to come.
const dataWatches = 2

// unwatched takes the answer to that. Any but one is as good as the other: the watch may have fired
// meanwhile.
func (c *client) unwatched(code int32) {
	if code == codeUnimplemented {
		c.markless.Store(true)
	}
}
