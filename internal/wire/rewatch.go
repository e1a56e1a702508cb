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
//     which all watches were set.
//
// When were all watches set? Each connection that resumes the session owes a SetWatches: the client
// puts it into its queue when the connection begins, if it has watches. If the connection ends
// first, the request may stay in the queue, and is sent on the next one, ahead of that one's own or
// behind it. It lacks the watches that the client has set in between. So all are set when as many
// were sent as connections owe one, and all that were sent on this connection are granted. Very
// many watches take several requests, one after the other, each when the previous one is answered;
// only the last one pays what its connection owes.
//
// Two cases are not told apart, in which such a request stays in the queue and is taken for the one
// that the second connection of a session owes: one of the first connection, which owes none, by a
// client that is late and finds watches that it has just set; and one of the last session.
//
// Some connections owe one for as long as the session lives: where the client had no watches, where
// its last request is large, and where it dropped the request unsent, or broke off several. Then,
// and where a request is sent on a later connection, a watch may report a change that its owner
// knows already. It is a signal to read, as any other.

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
	since := w.since
	if since == 0 { // nothing was seen before this connection: the client was late, and found watches that are set
		since = w.client.zxid.Load()
	}
	w.client.setsAgain(w, since, len(p) <= mostRewatched/2)
	p = bytes.Clone(p) // the client uses its buffer for other packets
	binary.BigEndian.PutUint64(p[zxidInSetWatches:], uint64(since))
	return p
}

// rewatched handles the server's answer to that. forClient is false if the client must not see it.
func (w *packetConn) rewatched(p packet, code int32) (forClient bool, err error) {
	switch code {
	case 0:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.rewatches--; w.rewatches == 0 {
			w.client.haveSet(w)
		}
		return true, nil
	case codeThrottled:
		time.AfterFunc(throttlePause, p.resend)
		return false, nil
	}
	return false, fmt.Errorf("%s refuses to set watches again (code %d)", w.address, code)
}

// resumed records that the session goes on with another packetConn, and returns the zxid since
// which the client may have missed changes of watched nodes.
func (c *client) resumed() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since == 0 {
		c.since = c.zxid.Load()
	}
	c.owed++
	return c.since
}

// setsAgain records that the client sends a SetWatches on this packetConn, for changes since a
// zxid; last says that it is the last one that a connection owes. Caller holds the packetConn's mu.
func (c *client) setsAgain(w *packetConn, since int64, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != w {
		return
	}
	c.since = since
	if last {
		c.owed = max(0, c.owed-1)
	}
}

// haveSet records that a server has granted all SetWatches that were sent on this packetConn;
// caller holds its mu.
func (c *client) haveSet(w *packetConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w && c.owed == 0 {
		c.since = 0
	}
}
