package memzk

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// session is the leader's state of a session, in memory only: a new leader starts all sessions with
// a full timeout.
type session struct {
	id      int64
	expires time.Duration // since the start of the ensemble
	closing bool
	owner   *Member // the member to which the client is connected; nil: not seen by this leader
}

// tracker times the sessions. A session's timeout passes when it was not used for that time. The
// session expires at the first multiple of a tick after that.
type tracker struct {
	sessions map[int64]*session
	tick     time.Duration
}

func newTracker(tick time.Duration) *tracker {
	return &tracker{sessions: map[int64]*session{}, tick: tick}
}

func (t *tracker) bucket(at time.Duration) time.Duration { return (at/t.tick + 1) * t.tick }

func (t *tracker) track(id int64, now, timeout time.Duration) *session {
	s := t.sessions[id]
	if s == nil {
		s = &session{id: id}
		t.sessions[id] = s
	}
	s.expires = t.bucket(now + timeout)
	return s
}

// touch is called for each request and ping. It returns false for a session that has ended or is
// closing.
func (t *tracker) touch(id int64, now, timeout time.Duration) bool {
	s := t.sessions[id]
	if s == nil || s.closing {
		return false
	}
	s.expires = t.bucket(now + timeout)
	return true
}

// check is called for each request, after touch, with the member that received the request.
func (t *tracker) check(id int64, owner *Member) int32 {
	s := t.sessions[id]
	switch {
	case s == nil || s.closing:
		return jute.CodeSessionExpired
	case s.owner == nil:
		s.owner = owner
	case s.owner != owner:
		return jute.CodeSessionMoved
	}
	return jute.CodeOK
}

func (t *tracker) setOwner(id int64, owner *Member) {
	if s := t.sessions[id]; s != nil && !s.closing {
		s.owner = owner
	}
}

// due marks as closing the expired sessions for which the function such returns true. It returns
// these sessions in random order.
func (t *tracker) due(now time.Duration, such func(id int64) bool, random *rand.Rand) []int64 {
	var ids []int64
	for id, s := range t.sessions {
		if !s.closing && s.expires <= now && such(id) {
			s.closing = true
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// next returns when the first session expires if no session is used again.
func (t *tracker) next() (at time.Duration, ok bool) {
	for _, s := range t.sessions {
		if !s.closing && (!ok || s.expires < at) {
			at, ok = s.expires, true
		}
	}
	return at, ok
}

// password returns a session's password. All members compute the same password, and no client can
// guess it.
func (e *Ensemble) password(id int64) (p [16]byte) {
	r := rand.New(rand.NewPCG(e.secret, uint64(id)))
	for i := 0; i < len(p); i += 8 {
		v := r.Uint64()
		for j := range 8 {
			p[i+j] = byte(v >> (8 * j))
		}
	}
	return p
}

// clampTimeout returns the timeout that the member grants to a client that asks for ms.
func (m *Member) clampTimeout(ms int32) time.Duration {
	return max(m.e.cfg.MinSession, min(m.e.cfg.MaxSession, time.Duration(ms)*time.Millisecond))
}

// firstSession returns the member's first session id, as in ZooKeeper: the member's number and the
// time. Bits that ZooKeeper does not use hold the ensemble's number.
func (e *Ensemble) firstSession(member int, now time.Time) int64 {
	return int64(member)<<56 | int64(uint64(now.UnixMilli())<<24>>8) | int64(e.cfg.Number&15)<<12
}

// startSessions makes a new leader time all existing sessions.
func (m *Member) startSessions() {
	m.tracker = newTracker(m.e.cfg.Tick)
	now := m.e.now()
	for id, timeout := range m.tree.sessions {
		m.tracker.track(id, now, time.Duration(timeout)*time.Millisecond)
	}
	m.setSessionAlarm()
}

// touchSession moves the session's timer, to an earlier time if the timeout is shorter than before.
// It returns false for a session that has ended or is closing.
func (m *Member) touchSession(id int64, timeout time.Duration) bool {
	if !m.tracker.touch(id, m.e.now(), timeout) {
		return false
	}
	m.sessionAlarm.before(m.tracker.sessions[id].expires)
	return true
}

// setSessionAlarm sets the alarm for the first timer. If that timer is moved later, the alarm rings
// once too early and is set again.
func (m *Member) setSessionAlarm() {
	if at, ok := m.tracker.next(); ok {
		m.sessionAlarm.at(at)
	} else {
		m.sessionAlarm.stop()
	}
}

// trackSession starts the timer of a session that a client of this or another member opens.
func (m *Member) trackSession(id int64, timeout time.Duration, owner *Member) {
	s := m.tracker.track(id, m.e.now(), timeout)
	s.owner = owner
	m.sessionAlarm.before(s.expires)
}

func (m *Member) expireSessions() { m.expire(func(int64) bool { return true }) }

func (m *Member) expire(such func(id int64) bool) {
	if m.role != leading || m.paused {
		return
	}
	for _, id := range m.tracker.due(m.e.now(), such, m.e.random) {
		m.e.note("session 0x%x expires", uint64(id))
		m.endSession(id)
	}
	if m.role == leading {
		m.setSessionAlarm()
	}
}

func (m *Member) endSession(id int64) {
	m.process(&request{from: m, op: jute.OpCloseSession, session: id})
}

// closeTxn returns the transaction that ends a session and deletes all its nodes.
func (m *Member) closeTxn(id int64) *txn {
	if s := m.tracker.sessions[id]; s != nil {
		s.closing = true
	}
	paths := m.tree.ephemeralPaths(id)
	m.e.random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	return &txn{kind: jute.OpCloseSession, session: id, paths: paths}
}

// sortedKeys makes results independent of the order of a map.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
