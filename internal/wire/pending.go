package wire

import (
	"sync/atomic"
	"time"
)

// pending holds the packets that were sent and not answered yet, in order. Replies come in the same
// order, except those to credentials, which the server sends at once.
type pending struct {
	sent []packet
	head int
}

type packet struct {
	xid, op    int32
	at         time.Time
	createZxid *atomic.Int64 // receives the zxid of the reply; or nil
	resend     func()        // sends it again if the server drops it; nil if the client does that
}

func (q *pending) push(p packet) {
	// Reuse the space in front before growing: a busy connection never has an empty queue.
	if len(q.sent) == cap(q.sent) && q.head > len(q.sent)/2 {
		q.sent = q.sent[:copy(q.sent, q.sent[q.head:])]
		q.head = 0
	}
	q.sent = append(q.sent, p)
}

// oldest returns when the oldest packet was sent, or the zero time if all are answered.
func (q *pending) oldest() time.Time {
	if q.head == len(q.sent) {
		return time.Time{}
	}
	return q.sent[q.head].at
}

// pop removes and returns the packet that a reply with this xid answers.
func (q *pending) pop(xid int32) (packet, bool) {
	for i := q.head; i < len(q.sent); i++ {
		p := q.sent[i]
		if p.xid != xid {
			continue
		}
		copy(q.sent[q.head+1:], q.sent[q.head:i])
		q.head++
		if q.head == len(q.sent) {
			q.sent, q.head = q.sent[:0], 0
		}
		return p, true
	}
	return packet{}, false
}
