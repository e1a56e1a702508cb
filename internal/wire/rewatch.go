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
// will send. If the connection is lost before the answer, the client sets them on the next one with
// the zxid of whatever it has received meanwhile, and misses the changes in between. So the
// packetConn
//   - sends the request again to a server that dropped it because it is overloaded;
//   - ends the connection if the server refuses for another reason;
//   - makes the next connection report changes since the zxid of the first request that was not
//     granted. It also does so where more than one request may have been needed: the client sends
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

// rewatch records that the client sets watches again, and returns the packet to send in place of
// its own; caller holds mu.
func (w *packetConn) rewatch(p []byte) []byte {
	if len(p) < zxidInSetWatches+8 {
		return p
	}
	w.rewatches++
	w.moreToFollow = w.moreToFollow || len(p) > mostRewatched/2
	p = bytes.Clone(p) // the client uses its buffer for other packets
	w.since = w.client.rewatchSince(w, w.since, int64At(p, zxidInSetWatches))
	binary.BigEndian.PutUint64(p[zxidInSetWatches:], uint64(w.since))
	return p
}

// rewatched handles the server's answer to that. granted is false if the client must not see it.
func (w *packetConn) rewatched(p packet, code int32) (granted bool, err error) {
	switch code {
	case 0:
		w.mu.Lock()
		w.rewatches--
		all := w.rewatches == 0 && !w.moreToFollow
		w.mu.Unlock()
		if all {
			w.client.rewatchGranted(w)
		}
		return true, nil
	case codeThrottled:
		time.AfterFunc(throttlePause, p.resend)
		return false, nil
	}
	return false, fmt.Errorf("%s refuses to set watches again (code %d)", w.address, code)
}

// rewatchSince records that the client asks, on this packetConn, for changes since a zxid, and
// returns the zxid that it must ask for. floor is that of the client's last request on this
// packetConn, 0 if there was none.
func (c *client) rewatchSince(w *packetConn, floor, zxid int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, earlier := range []int64{floor, c.since} {
		if earlier != 0 {
			zxid = min(zxid, earlier)
		}
	}
	if c.current == w {
		c.since = zxid
	}
	return zxid
}

// rewatchGranted records that a server has granted all requests of this packetConn.
func (c *client) rewatchGranted(w *packetConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w {
		c.since = 0
	}
}
