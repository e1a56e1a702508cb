package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// After a reconnect the client sets its watches again, by requests (SetWatches) that say up to
// which zxid it has heard of changes. It sends each once. If a server refuses one the client notes
// that in its log, and a goroutine that waits for one of those watches waits for an event that no
// server will send. If the connection is lost before the answer, the client sets them on the next
// one with the zxid of whatever it has heard meanwhile, and misses the changes in between. So the
// wire
//   - asks a server again that has thrown the request away because it has too much to do;
//   - ends the connection if the server refuses for another reason;
//   - has the next connection tell of changes since the zxid of the first request that was not
//     granted, or that more than one request may have been needed: the client sends them one after
//     the other, each when the one before is answered, and one of the last connection may still be
//     in its queue.
//
// Of the last, a watch may hear of a change that its owner knows already. It is a signal to look,
// as any other.

// throttlePause is how long a server is left alone that has too much to do.
const throttlePause = 100 * time.Millisecond

const (
	zxidInSetWatches = lengthSize + 8 // behind xid and operation
	// mostRewatched is where the client begins another request. One of less than half that size is
	// the last, if no path is as long as the other half.
	mostRewatched = 128 << 10
)

// rewatch notes that the client sets watches again, and returns the packet to be sent in place of
// its own; caller holds mu.
func (w *wire) rewatch(p []byte) []byte {
	if len(p) < zxidInSetWatches+8 {
		return p
	}
	w.rewatches++
	w.partly = w.partly || len(p) > mostRewatched/2
	p = bytes.Clone(p) // the client will use its buffer for other packets
	w.since = w.client.unheard(w, w.since, int64At(p, zxidInSetWatches))
	binary.BigEndian.PutUint64(p[zxidInSetWatches:], uint64(w.since))
	return p
}

// rewatched takes the server's answer to that. granted is false if the client must not see it.
func (w *wire) rewatched(p packet, code int32) (granted bool, err error) {
	switch code {
	case 0:
		w.mu.Lock()
		w.rewatches--
		all := w.rewatches == 0 && !w.partly
		w.mu.Unlock()
		if all {
			w.client.heard(w)
		}
		return true, nil
	case codeThrottled:
		w.sendLater(p)
		return false, nil
	}
	return false, fmt.Errorf("%s refuses to set watches again (code %d)", w.address, code)
}

// sendLater sends a request once more that the server has thrown away.
func (w *wire) sendLater(p packet) {
	time.AfterFunc(throttlePause, p.again)
}

// unheard notes that the client asks, on this wire, to be told of changes since a zxid, and returns
// the one that it has to ask for. floor is that of its last request on this wire, 0 if there was
// none.
func (c *client) unheard(w *wire, floor, zxid int64) int64 {
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

// heard notes that a server has granted all that was asked for on this wire.
func (c *client) heard(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w {
		c.since = 0
	}
}
