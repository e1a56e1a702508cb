package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// After a reconnect the client sets its watches again by SetWatches requests, which state the zxid
// up to which it has received changes. It sends each once. If a server refuses one, the client only
// logs that, and a goroutine that waits for one of those watches waits for an event that no server
// will send. And the zxid may be wrong: the client reads it in one goroutine while another stores
// that of a reply in it, which is a data race; with a newer zxid the server assumes that the client
// has seen what happened meanwhile. If the connection is lost before the answer, the client sets
// its watches on the next one with the zxid of whatever it has received meanwhile, and misses the
// changes in between. So the packetConn
//   - sends the request again to a server that dropped it because it is overloaded;
//   - ends the connection if the server refuses for another reason;
//   - keeps the zxids of replies to itself, so that the client never stores one, and writes the
//     right one into each handshake and SetWatches;
//   - has all SetWatches of a connection report changes since the last reply of the connection on
//     which all watches were set. A connection on which no SetWatches is seen does not count as
//     one, and neither does one where more than one request may have been needed: the client sends
//     them one after the other, each when the previous one is answered, and one of the previous
//     connection may still be in its queue.
//
// So a watch may report a change that its owner knows already. It is a signal to read, as any
// other.

// throttlePause is how long an overloaded server gets no request again.
const throttlePause = 100 * time.Millisecond

const (
	zxidInSetWatches = lengthSize + 8 // after xid and operation
	// mostRewatched is the size at which the client begins another request. A request of less than
	// half that size is the last, if no path is as long as the other half.
	mostRewatched = 128 << 10
)

// takeZxid records the zxid of the reply to a request, and removes it.
func (w *packetConn) takeZxid(head []byte) {
	if zxid := int64At(head, zxidInReply); zxid > 0 {
		w.client.zxid.Store(zxid)
	}
	binary.BigEndian.PutUint64(head[zxidInReply:], 0)
}

// rewatch records that the client sets watches again, and returns the packet to send in place of
// its own; caller holds mu.
func (w *packetConn) rewatch(p []byte) []byte {
	if len(p) < zxidInSetWatches+8 {
		return p
	}
	w.rewatches++
	w.moreToFollow = w.moreToFollow || len(p) > mostRewatched/2
	since := w.since
	if since == 0 { // nothing was seen before this connection: the client was late, and found watches that are set
		since = w.client.zxid.Load()
	}
	w.client.mayMiss(w, since)
	p = bytes.Clone(p) // the client uses its buffer for other packets
	binary.BigEndian.PutUint64(p[zxidInSetWatches:], uint64(since))
	return p
}

// rewatched handles the server's answer to that. granted is false if the client must not see it.
func (w *packetConn) rewatched(p packet, code int32) (granted bool, err error) {
	switch code {
	case 0:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.rewatches--; w.rewatches == 0 && !w.moreToFollow {
			w.client.mayMiss(w, 0)
		}
		return true, nil
	case codeThrottled:
		time.AfterFunc(throttlePause, p.resend)
		return false, nil
	}
	return false, fmt.Errorf("%s refuses to set watches again (code %d)", w.address, code)
}

// missedSince records that the session goes on with another packetConn, and returns the zxid since
// which the client may have missed changes of watched nodes.
func (c *client) missedSince() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since == 0 {
		c.since = c.zxid.Load()
	}
	return c.since
}

// mayMiss records since which zxid the client may have missed changes of watched nodes, 0 when a
// server has granted all requests of this packetConn; caller holds the packetConn's mu.
func (c *client) mayMiss(w *packetConn, since int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w {
		c.since = since
	}
}
