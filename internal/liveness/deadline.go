package liveness

import "time"

// deadline finds the latest packet of a connection of which the leader is known to have heard.
//
// The leader alone ends sessions. A client on a follower keeps its session alive by any packet but
// credentials, which wire does not tell here; but the follower only notes it, and passes its notes on with its next
// answer to the leader's ping, which comes every half tick. A follower that is cut off or stops takes the notes since
// then with it, so an answer from it proves nothing by itself.
//
// A request that needs the quorum does. Let packet a be answered, the answer heard at h, and let the quorum request q,
// sent at h + T/4 + T/32 or later on the same connection, be answered, too. Then
//   - the follower had a before h;
//   - a session timeout T is two ticks at least (unless minSessionTimeout is set to less), so half
//     a tick is T/4 at most. The leader sleeps that long between two pings. Its own work between
//     them comes on top, and T/32 is for that: 125 ms of a timeout of 4 s. So it pings the follower
//     after h and before it commits q;
//   - ping and commit travel on one ordered stream, hence the follower answered the ping, its note of a included, before
//     it answered q.
//
// So the leader counts the session's T from a or later. Or that leader is gone; then it was so
// after q, and its successor starts every session with a full T. It is h that has to be that long
// before q, not the time a was sent: a slow packet may reach the follower right before q does, and
// no ping fits between them.
//
// A mark may be told after the proof. Replies on one connection are in order, so whatever was sent before q reached the
// server before q was answered; only its h is late then, which keeps it from being chosen before a later proof comes.
//
// A handshake that resumes a session is the leader's own work, handed over at once. But a leader
// that has been deposed does not know that for a while (it stood still, or is cut off from the
// others), and answers it nevertheless, without asking them. Its successor may have begun to count
// before, and never hears of that handshake. So it needs a proof, too, if not the wait: any quorum
// request that was sent after it was answered and is answered on the same connection. The quorum
// followed this leader then, so there was no successor yet at the time of the handshake. (A new
// session is a quorum request itself.)
//
// Connections do not mix: a proof for the former connection, told late, was sent before the handshake of this one was
// answered, so it proves nothing here.
type deadline struct {
	timeout time.Duration
	proof   time.Time // the latest quorum request known to be answered
	packets [maxPackets]packet
	n       int

	unconfirmed     bool // the session was resumed with resumeHandshake, and nothing has proved that yet
	resumeHandshake packet
}

// A mark is one answered packet.
type packet struct {
	sent, heard time.Time
}

// Packets are thinned to one in T/64, as more would only buy precision, and one older than T is past
// its use. So this many always suffice, however long no proof comes. A coarser one costs the
// deadline up to that part of T: the client's ping comes at times right before a heartbeat, which
// leaves no mark then.
const (
	thinning   = 64
	maxPackets = thinning + 4
)

// settle is how long an answer must have been heard before a quorum request is sent that proves it:
// T/4 + T/32, see above.
func settle(timeout time.Duration) time.Duration { return timeout/4 + timeout/32 }

// reset starts with a handshake.
func (t *deadline) reset(timeout time.Duration, sent time.Time) {
	*t = deadline{timeout: timeout, proof: sent}
}

// resumed tells that the handshake that was the start found a session that there was before.
func (t *deadline) resumed(sent, heard time.Time) {
	t.unconfirmed, t.resumeHandshake = true, packet{sent, heard}
}

// answered returns the base that the packet gives at once, the zero time if none.
func (t *deadline) answered(sent, heard time.Time) time.Time {
	if heard.Before(sent) {
		heard = sent
	}
	if t.covers(heard) {
		return sent
	}
	if t.n > 0 && sent.Sub(t.packets[t.n-1].sent) < t.timeout/thinning {
		return time.Time{}
	}
	if t.n == maxPackets {
		t.drop(1)
	}
	t.packets[t.n] = packet{sent, heard}
	t.n++
	return time.Time{}
}

// proved returns the base that a quorum request gives, the zero time if none.
func (t *deadline) proved(sent time.Time) (base time.Time) {
	if sent.After(t.proof) {
		t.proof = sent
	}
	if t.unconfirmed && !sent.Before(t.resumeHandshake.heard) {
		t.unconfirmed = false
		base = t.resumeHandshake.sent
	}
	chosen := 0
	for chosen < t.n && t.covers(t.packets[chosen].heard) {
		if sent := t.packets[chosen].sent; sent.After(base) { // the answer of the last connection may have been told late
			base = sent
		}
		chosen++
	}
	t.drop(chosen)
	return base
}

// covers says whether the latest proof vouches for a packet whose answer was heard then. Only the monotonic clock is
// asked (Sub prefers it): it stands still in a suspended machine, which makes the distance look shorter, the safe side.
func (t *deadline) covers(heard time.Time) bool {
	return t.proof.Sub(heard) >= settle(t.timeout)
}

func (t *deadline) drop(n int) {
	t.n = copy(t.packets[:], t.packets[n:t.n])
}
