package wire

import (
	"slices"
	"time"
)

// deadline finds the latest packet of a connection that the leader is known to have noted.
//
// Only the leader ends sessions. A client on a follower keeps its session alive with any packet
// except credentials, which are not recorded here. But the follower only notes the packet. It sends
// its notes to the leader with its next answer to the leader's ping, which comes every half tick.
// If the follower is cut off or stops, the notes since then are lost, so an answer from it proves
// nothing by itself. (The notes of an observer that follows a follower wait twice, which takes
// longer than the following allows for. So guarantees.md excludes such observers.)
//
// A request that needs the quorum does. Let packet a be answered, let the answer be read at h, and
// let the quorum request q, sent at h + T/4 + T/32 or later on the same connection, be answered,
// too. Then
//   - the follower had a before h;
//   - a session timeout T is two ticks at least (unless minSessionTimeout is set to less), so half
//     a tick is T/4 at most. The leader sleeps that long between two pings. Its own work between
//     them and the way to the follower come on top, and T/32 is for that: 125 ms of a timeout of 4
//     s. So a ping reaches the follower after h and before q does;
//   - the follower's answers and q travel to the leader on one ordered stream, hence the leader had
//     the answer to the ping, the note of a included, before it committed q.
//
// If the ping was sent in time and is slow on its way, it is still ahead of the commit of q on the
// stream from the leader. So the follower has answered the ping before it answers q. Only a network
// that then loses this answer, sent behind q, and delivers the commit, loses the note.
//
// So the leader counts the session's T from a or later. If that leader is no longer the leader, it
// still was when q was committed, and its successor starts every session with a full T. Not the
// time at which a was sent, but h must be that long before q, because a slow packet may reach the
// follower right before q does, and no ping fits between the two.
//
// Nothing here depends on what else is under way. Any number of packets and quorum requests may be
// sent between a and q, and before either is answered: each pair of an answered packet and an
// answered quorum request proves what it proves alone. A q that was sent before h proves nothing of
// a. Both times are the process's own, and a late reading of the clock only makes the result
// earlier: the time of sending is read before the packet is written, and h after the answer was
// read.
//
// A handshake that resumes a session is sent to the leader at once, and the leader renews the
// session itself. But a deposed leader does not know for a while that it is deposed (it was frozen,
// or is cut off from the others), and answers the handshake nevertheless, without asking the
// quorum. Its successor may have started to count before, and never receives that handshake. So the
// handshake needs a proof, too, but not the wait: any quorum request that is sent after the
// handshake was answered, and is answered on the same connection. The quorum followed this leader
// then, so there was no successor yet at the time of the handshake. (The creation of a session is a
// quorum request itself.)
//
// Connections do not mix: each begins with an empty deadline, and run reads nothing from a
// connection once it has begun the next one.
type deadline struct {
	timeout   time.Duration
	packets   []answer // in the order in which they were sent, and answered; not proved yet
	handshake *answer  // that resumed the session; nil: the connection has created it
}

// An answer to a packet: when the packet was sent, and when the answer was read.
type answer struct {
	sent, heard time.Time
}

// Packets are thinned to one in T/256: more would only add precision. A packet older than T is of
// no use, so this many always suffice, however long no proof arrives. Thinning makes the deadline
// up to T/256 earlier: if a ping is sent right before a heartbeat, the heartbeat's packet is
// dropped.
const (
	thinning   = 256
	maxPackets = thinning + 4
)

// settle returns how long before a quorum request is sent an answer must have arrived for that
// request to prove its packet: T/4 + T/32, see above.
func settle(timeout time.Duration) time.Duration { return timeout/4 + timeout/32 }

// answered records the answer to a packet.
func (t *deadline) answered(sent, heard time.Time) {
	n := len(t.packets)
	if n > 0 && sent.Sub(t.packets[n-1].sent) < t.timeout/thinning {
		return
	}
	if n == maxPackets {
		t.packets = slices.Delete(t.packets, 0, 1)
	}
	t.packets = append(t.packets, answer{sent, heard})
}

// proved returns the base that the answer to a quorum request gives, or the zero time if it gives
// none. Sub uses the monotonic clock, which stops in a suspended machine: the distance then looks
// shorter, which is safe.
func (t *deadline) proved(sent time.Time) (base time.Time) {
	if t.handshake != nil && !sent.Before(t.handshake.heard) {
		base = t.handshake.sent
	}
	n := 0
	for n < len(t.packets) && sent.Sub(t.packets[n].heard) >= settle(t.timeout) {
		base = t.packets[n].sent
		n++
	}
	t.packets = slices.Delete(t.packets, 0, n)
	return base
}
