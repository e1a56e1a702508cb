package wire

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// state is the session as the locks see it: the session timeout that the server granted, the number
// of reconnects, whether the program has closed the connection, and until when the session is known
// to be alive. run and the packetConns update it; the locks read it. The
// exported methods may be called from any goroutine. Callers of begin, disconnect, expire,
// answered, beaten, note and wake hold mu.
type state struct {
	now func() time.Time

	quit  context.Context // done when the program has closed the connection
	leave context.CancelFunc

	// view is read without mu. It is replaced, never changed, so Alive costs one load and one read
	// of the clock.
	view atomic.Pointer[view]

	// mu, of tier 4, serializes the writers of view. It guards what follows, and fields of Conn,
	// packetConn, Watch and Call.
	mu       sync.Mutex
	deadline deadline
	down     time.Time     // when the connection was lost; zero: it is up
	failure  error         // of the last attempt; nil: a server has answered a request since then
	changed  chan struct{} // see Changed
	monitor  Monitor       // nil until Monitored

	recent []beat // the heartbeats of the last minute, see Heartbeat
}

// A Monitor notifies the holds of a connection when their session is over. All locks share it.
type Monitor interface {
	// Check notifies the holds whose session is over. It returns when they have been notified, also
	// if another call does it. It is called at each change, because the deadline may be earlier
	// than before. It must not block.
	Check()
}

// view is an immutable snapshot of the state.
type view struct {
	epoch   uint64
	session int64
	timeout time.Duration
	base    time.Time // the deadline is base + timeout, see deadline and begin
}

// newState returns the state of a connection that has no session yet.
func newState(now func() time.Time) *state {
	s := &state{now: now, down: now(), changed: make(chan struct{})}
	s.quit, s.leave = context.WithCancel(context.Background())
	s.view.Store(&view{})
	return s
}

// begin records that a server has answered the handshake. sent is when the handshake was sent. The
// quorum creates a new session, so the deadline of a new session counts from then. A resumed
// session keeps its deadline until a quorum request confirms the handshake, see deadline.
//
// Servers may grant different timeouts, also one server after a restart. The shortest timeout that
// was granted in a session counts: the server that granted it may report the session once more
// after the connection has left it, and the leader then counts that timeout. If this server grants a
// shorter timeout than before, the leader counts it from the handshake on. If the server is a
// deposed leader, the timeout does not count. So the deadline is the previous deadline, or the
// handshake plus the shorter timeout, whichever is earlier.
func (s *state) begin(session int64, granted time.Duration, sent time.Time) {
	if s.IsClosed() {
		return
	}
	old := s.view.Load()
	resumed := session == old.session
	if resumed {
		granted = min(granted, old.timeout)
	}
	next := view{old.epoch + 1, session, granted, sent}
	s.deadline = deadline{timeout: granted}
	if resumed {
		s.deadline.handshake = &answer{sent, s.now()}
		if base := old.base.Add(old.timeout - granted); base.Before(sent) || base.Round(0).Before(sent.Round(0)) { // by either clock
			next.base = base
		}
	}
	s.down = time.Time{}
	s.view.Store(&next)
	s.wake()
}

// disconnect records that the connection is down. The session and its deadline remain.
func (s *state) disconnect() {
	if s.down.IsZero() {
		s.down = s.now()
		s.wake()
	}
}

// Up returns the session of the connection, or 0 if it is down.
func (s *state) Up() (session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.IsZero() {
		return 0
	}
	return s.Session()
}

// LastFailure returns why the last attempt to connect failed, or why servers refuse the
// credentials. It returns nil if a server has answered a request since then.
func (s *state) LastFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// expire records that a server has answered that the session is over.
func (s *state) expire() {
	old := s.view.Load()
	if old.session == 0 {
		return
	}
	s.disconnect()
	s.view.Store(&view{epoch: old.epoch, timeout: old.timeout})
	s.wake()
}

// markClosed records that the program has closed the connection, and returns when the holds have
// been notified. Later updates have no effect.
func (s *state) markClosed() {
	s.mu.Lock()
	if !s.IsClosed() {
		s.disconnect()
		old := s.view.Load()
		s.view.Store(&view{epoch: old.epoch, timeout: old.timeout})
		s.leave()
		close(s.changed) // and not replaced: Changed stays closed
	}
	m := s.monitor
	s.mu.Unlock()
	if m != nil {
		m.Check()
	}
}

// note records why an attempt failed, for LastFailure.
func (s *state) note(err error) {
	if !s.IsClosed() {
		s.failure = err
	}
}

// Monitored returns the Monitor that the first call has made. make must not call the Conn.
func (s *state) Monitored(make func() Monitor) Monitor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.monitor == nil {
		s.monitor = make()
	}
	return s.monitor
}

// answered records that the answer to a packet of the current connection has just been read. sent
// is when the packet was sent. quorum means that the leader has asked the quorum for this answer,
// see proves.
func (s *state) answered(sent time.Time, quorum bool) {
	s.failure = nil
	v := s.view.Load()
	if v.session == 0 {
		return
	}
	if quorum {
		if base := s.deadline.proved(sent); base.After(v.base) {
			next := *v
			next.base = base
			s.view.Store(&next)
		}
	}
	s.deadline.answered(sent, s.now())
}

// A beat is a heartbeat that was answered at an instant: how long that took, and how long before the
// deadline the answer arrived.
type beat struct {
	at              time.Time
	latency, margin time.Duration
}

// beaten records that a heartbeat has just been answered. sent is when the heartbeat was sent.
// beaten is called before answered, which moves the deadline.
func (s *state) beaten(sent time.Time) {
	now, v := s.now(), s.view.Load()
	s.forget(now)
	if v.session != 0 {
		s.recent = append(s.recent, beat{now, now.Sub(sent), v.base.Add(v.timeout).Sub(now)})
	}
}

// Heartbeat returns the longest latency and the smallest margin in heartbeats. A margin is how long
// before the deadline an answer arrived.
func (s *state) Heartbeat() (latency, margin time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(s.now())
	for i, b := range s.recent {
		if latency = max(latency, b.latency); i == 0 || b.margin < margin {
			margin = b.margin
		}
	}
	return latency, margin
}

// forget forgets the heartbeats that are older than a minute.
func (s *state) forget(now time.Time) {
	s.recent = slices.DeleteFunc(s.recent, func(b beat) bool { return now.Sub(b.at) > time.Minute })
}

// wake closes the channel that Changed returned, makes a new one, and calls the monitor.
func (s *state) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
	if s.monitor != nil {
		go s.monitor.Check()
	}
}

// Epoch counts the answered handshakes. If two calls return the same epoch, there was no reconnect in
// between.
func (s *state) Epoch() uint64 { return s.view.Load().epoch }

// Session returns the id of the current session, also while disconnected. It is 0 before the first
// session, after it expired and after the connection was closed.
func (s *state) Session() int64 { return s.view.Load().session }

// Timeout returns the session timeout that the server granted, the shortest if it was granted
// several times. It may differ from the requested one, and is 0 before the first handshake.
func (s *state) Timeout() time.Duration { return s.view.Load().timeout }

// IsClosed reports whether the program has closed the connection, which is final.
func (s *state) IsClosed() bool { return s.quit.Err() != nil }

// Deadline returns the time until which the session is known to be alive, or the zero time if it is
// not the current session. Use it for timers only: they follow the monotonic clock, and Alive
// checks the wall clock, too.
func (s *state) Deadline(session int64) time.Time {
	v := s.view.Load()
	if v.session != session || session == 0 {
		return time.Time{}
	}
	return v.base.Add(v.timeout)
}

// Alive reports whether the session is the current session and its deadline is in the future, by
// the monotonic clock and by the wall clock. The monotonic clock stops while a machine is
// suspended, and the wall clock may be set back. If it is set forward, the session ends early,
// which is safe.
func (s *state) Alive(session int64) bool {
	// Read the clock after the state: the process may be paused between the two.
	v := s.view.Load()
	if v.session != session || session == 0 {
		return false
	}
	now := s.now()
	return now.Sub(v.base) < v.timeout && now.Round(0).Sub(v.base.Round(0)) < v.timeout
}

// Changed returns a channel that is closed at the next change: connected, disconnected, expired,
// closed. Call it before you read the state, or you miss a change between the two. If the program
// has closed the connection, the channel is closed.
func (s *state) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
