package memzk

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// session is what the leader knows of a session, in its memory only: a new leader starts all timers
// with a full timeout.
type session struct {
	id      int64
	timeout time.Duration // that was counted last
	expires time.Duration // since the start of the ensemble
	closing bool
	expired bool    // closing, because its time has come
	owner   *Member // the member that the client is connected to; nil: not seen since the leader leads
}

// tracker times the sessions. A session expires at the end of a bucket: the first multiple of a
// tick that is later than its last use plus its timeout.
type tracker struct {
	sessions map[int64]*session
	tick     time.Duration
}

func newTracker(tick time.Duration) *tracker {
	return &tracker{sessions: map[int64]*session{}, tick: tick}
}

func (t *tracker) bucket(at time.Duration) time.Duration { return (at/t.tick + 1) * t.tick }

// track starts a session's timer, or moves it.
func (t *tracker) track(id int64, now, timeout time.Duration) *session {
	s := t.sessions[id]
	if s == nil {
		s = &session{id: id}
		t.sessions[id] = s
	}
	s.timeout, s.expires = timeout, t.bucket(now+timeout)
	return s
}

// touch is called with each request and ping. It returns false for a session that is over or
// closing.
func (t *tracker) touch(id int64, now, timeout time.Duration) bool {
	s := t.sessions[id]
	if s == nil || s.closing {
		return false
	}
	s.timeout, s.expires = timeout, t.bucket(now+timeout)
	return true
}

// check is asked for each request, after touch, with the member that the request came by.
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

// due marks the sessions whose time has come as closing, if they are such ones. Their order is a
// matter of chance.
func (t *tracker) due(now time.Duration, such func(id int64) bool, random *rand.Rand) []int64 {
	var ids []int64
	for id, s := range t.sessions {
		if !s.closing && s.expires <= now && such(id) {
			s.closing, s.expired = true, true
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// next is when the first session expires if it is not used again.
func (t *tracker) next() (at time.Duration, ok bool) {
	for _, s := range t.sessions {
		if !s.closing && (!ok || s.expires < at) {
			at, ok = s.expires, true
		}
	}
	return at, ok
}

// password of a session. All members know it, and no client can guess it.
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

// clampTimeout is the timeout that the member grants to a client that asks for one.
func (m *Member) clampTimeout(ms int32) time.Duration {
	return max(m.minSession, min(m.maxSession, time.Duration(ms)*time.Millisecond))
}

// firstSession is where a member starts to count, as ZooKeeper does: its number, and the time. The
// rest is free, for the number of the ensemble.
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

// touchSession moves the session's timer, to an earlier time if the timeout is shorter than the
// last one. It returns false for a session that is over or closing.
func (m *Member) touchSession(id int64, timeout time.Duration) bool {
	if !m.tracker.touch(id, m.e.now(), timeout) {
		return false
	}
	m.sessionAlarm.before(m.tracker.sessions[id].expires)
	return true
}

// forgetSession is called when the end of the session has been committed.
func (m *Member) forgetSession(id int64) {
	s, told := m.tracker.sessions[id], m.e.cfg.Expired
	if s != nil && s.expired && told != nil {
		m.e.calls = append(m.e.calls, func() { told(id, s.timeout) })
	}
	delete(m.tracker.sessions, id)
}

// setSessionAlarm is called when a timer may have become the first. Where one is moved away, the
// alarm comes too early, once, and is set again.
func (m *Member) setSessionAlarm() {
	if at, ok := m.tracker.next(); ok {
		m.sessionAlarm.at(at)
	} else {
		m.sessionAlarm.stop()
	}
}

// trackSession starts the timer of a session that a client of this or of another member opens.
func (m *Member) trackSession(id int64, timeout time.Duration, owner *Member) {
	s := m.tracker.track(id, m.e.now(), timeout)
	s.owner = owner
	m.sessionAlarm.before(s.expires)
}

// expireSessions is the session alarm of a leader.
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

// closeTxn ends a session: one transaction deletes all its nodes.
func (m *Member) closeTxn(id int64) *txn {
	if s := m.tracker.sessions[id]; s != nil {
		s.closing = true
	}
	paths := m.tree.ephemeralPaths(id)
	m.e.random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	return &txn{kind: jute.OpCloseSession, session: id, paths: paths}
}

// sortedKeys is for answers that must not depend on the order of a map.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
