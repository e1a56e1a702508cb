package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// A refusal is the rest of a connection on which a server has refused credentials that were
// accepted before. The client does not hear of it: its send loop would not begin, each connection
// would leave a goroutine that waits for the loop with a request, and the next attempt would come
// at once. The client hears that all its credentials are accepted, nothing is sent, and the
// connection ends after a while, as any other.
type refusal struct {
	until time.Time
	okays chan []byte // answers to further credentials
}

// longestRefusal is how long such a connection lasts, unless that is longer than an attempt may
// take: another server may accept the credentials.
const longestRefusal = time.Second

var errRefused = fmt.Errorf("the server refuses credentials that were accepted before: %w", zk.ErrAuthFailed)

// refuse begins a refusal, and makes the answer, whose code is in its header, one that accepts.
func (w *packetConn) refuse(code []byte) {
	clear(code)
	w.client.note(w.client.at(w.address, errRefused))
	r := &refusal{time.Now().Add(min(longestRefusal, w.limit)), make(chan []byte, 16)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal = r
}

// accepts prepares the answer to credentials; r is nil if none were refused.
func (r *refusal) accepts(xid int32) {
	if r == nil {
		return
	}
	select {
	case r.okays <- okay(xid):
	default: // the client waits until the connection ends
	}
}

// next returns the next answer, or errRefused at the end of the connection.
func (r *refusal) next(quit context.Context) ([]byte, error) {
	timer := time.NewTimer(time.Until(r.until))
	defer timer.Stop()
	select {
	case reply := <-r.okays:
		return reply, nil
	case <-timer.C:
	case <-quit.Done():
	}
	return nil, errRefused
}

// wasAccepted reports whether credentials were accepted before, and notes whether they are now.
func (c *client) wasAccepted(credentials string, now bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.accepted[credentials]
	if now && !before {
		if c.accepted == nil {
			c.accepted = make(map[string]bool)
		}
		c.accepted[credentials] = true
	}
	return before
}

// okay is an answer without a body.
func okay(xid int32) []byte {
	reply := binary.BigEndian.AppendUint32(nil, replyHeader)
	reply = binary.BigEndian.AppendUint32(reply, uint32(xid))
	return append(reply, make([]byte, replyHeader-4)...)
}
