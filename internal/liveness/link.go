// Package liveness has the state of a connection made by package wire that a bare *zk.Conn does not
// expose: the session timeout that the server granted, the number of reconnects, whether the
// connection is closed for good, and until when its session is known to be alive.
//
// Package wire updates a Link from what happens on the connection; the locks read it. A Link blocks
// no caller. It calls its Monitor in TellClosed, and else on a goroutine of its own.
package liveness

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Link is the state of one connection. All methods may be called from any goroutine.
type Link struct {
	// Servers are the addresses that the connection may use. They do not change.
	Servers []string

	// WatchAll sets a data watch on each node and waits for the server's answer. It sends one
	// request for each 128 KiB of paths. Each channel yields one event and is closed then. If the
	// connection ends, the event is zk.EventNotWatching, because these watches end with the
	// connection. The channel of a node that does not exist is nil. The error is that of the
	// connection or of the server.
	//
	// The first node may have a release marker, if marker is not "". The marker is another node,
	// which the transaction that deletes the first node creates and deletes. The event is then
	// zk.EventNodeCreated, with the path of the marker.
	//
	// Package wire sets this before any other goroutine has the Link.
	WatchAll func(paths []string, marker string) ([]<-chan zk.Event, error)

	// End closes the client, see wire.Close. Package wire sets it, too.
	End func(*zk.Conn)

	// CloseConfirmed says that a server answered the request to close the session.
	CloseConfirmed atomic.Bool

	now func() time.Time

	// view is read without mu. It is replaced, never changed, so Alive costs one load and one read
	// of the clock.
	view atomic.Pointer[view]

	createZxids sync.Map // from the path of each tracked create to its *atomic.Int64, see Track

	mu       sync.Mutex // serializes the writers of view; guards everything below
	deadline deadline
	down     time.Time // since when there is no connection; zero if there is one
	failure  error     // of the last attempt; nil: a server has answered a request since
	changed  chan struct{}
	monitor  Monitor // nil until Monitored
}

// A Monitor tells the holds of a connection when their session is over. All locks share it.
type Monitor interface {
	// Tick looks whether a session is over, and returns when its holds have been told, also by
	// another caller. It must not block.
	Tick()
	// Hurry is called when the timeout of the session has become shorter: the deadline may be
	// nearer, and the next heartbeat must come sooner.
	Hurry()
}

// view is an immutable snapshot of the state.
type view struct {
	epoch   uint64
	session int64
	timeout time.Duration
	base    time.Time // the deadline is base + timeout, see deadline and Connected
	wall    int64     // base in Unix nanoseconds, for the wall clock
	closed  bool
}

// New returns the Link of a connection that has no session yet.
func New(servers ...string) *Link {
	l := newLink(time.Now)
	l.Servers = servers
	return l
}

func newLink(now func() time.Time) *Link {
	l := &Link{now: now, down: now(), changed: make(chan struct{})}
	l.view.Store(&view{})
	return l
}

// Connected records that the server answered a handshake, sent at sent, with this session and this
// timeout. A new session is created by the quorum, so its deadline counts from sent. A resumed
// session keeps its deadline until a quorum request confirms the handshake, see deadline.
//
// Members may grant different timeouts, and so may one after it was restarted with other limits.
// The shortest that was granted in a session counts: the member that granted it may report the
// session once more after the client has left, and the leader then counts the timeout of that
// report. A shorter one than before counts from the handshake on, or, if a deposed leader has
// answered that, not at all. So the deadline is the earlier of the two.
func (l *Link) Connected(session int64, granted time.Duration, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.view.Load()
	if old.closed {
		return
	}
	resumed := session == old.session
	if resumed {
		granted = min(granted, old.timeout)
	}
	l.deadline = deadline{timeout: granted, proof: sent}
	l.down = time.Time{}
	next := view{
		epoch:   old.epoch + 1,
		session: session,
		timeout: granted,
		base:    sent,
		wall:    sent.UnixNano(),
	}
	shorter := old.timeout - granted
	if resumed {
		l.deadline.handshake = &packet{sent, l.now()}
		if base := old.base.Add(shorter); base.Before(sent) {
			next.base = base
		}
		next.wall = min(old.wall+int64(shorter), next.wall)
	}
	l.view.Store(&next)
	l.wake()
	if resumed && shorter > 0 && l.monitor != nil {
		go l.monitor.Hurry()
	}
}

// Unconfirmed reports whether the session was resumed and no quorum request has confirmed that
// handshake yet. The next quorum request that is sent and answered confirms it.
func (l *Link) Unconfirmed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down.IsZero() && l.deadline.handshake != nil
}

// Disconnected records that the connection is down. The session and its deadline stay.
func (l *Link) Disconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down.IsZero() {
		l.disconnect()
		l.wake()
	}
}

// disconnect records since when there is no connection; caller holds mu.
func (l *Link) disconnect() {
	if l.down.IsZero() {
		l.down = l.now()
	}
}

// Down returns since when there is no connection, or the zero time if there is one.
func (l *Link) Down() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// Failed records why there is no connection, or none that is of use.
func (l *Link) Failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

// LastFailure returns the last of those errors, and nil if a server has answered a request since.
func (l *Link) LastFailure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// Expired records that the server answered that the session is over.
func (l *Link) Expired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.view.Load()
	if old.session == 0 {
		return
	}
	l.disconnect()
	l.view.Store(&view{epoch: old.epoch, timeout: old.timeout})
	l.wake()
}

// MarkClosed records that the application closed the connection. It is final: later updates are
// ignored.
func (l *Link) MarkClosed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.view.Load()
	if old.closed {
		return
	}
	l.disconnect()
	l.view.Store(&view{epoch: old.epoch, timeout: old.timeout, closed: true})
	close(l.changed) // and not replaced: Changed stays closed
}

// Monitored returns the Monitor that the first call has made. make must not call the Link.
func (l *Link) Monitored(make func() Monitor) Monitor {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.monitor == nil {
		l.monitor = make()
	}
	return l.monitor
}

// TellClosed returns when the holds have been told, if the connection was closed.
func (l *Link) TellClosed() {
	if !l.IsClosed() {
		return
	}
	l.mu.Lock()
	m := l.monitor
	l.mu.Unlock()
	if m != nil {
		m.Tick()
	}
}

// Answered records that the answer to a packet, sent at sent on the present connection, has just
// arrived.
func (l *Link) Answered(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = nil
	if v := l.view.Load(); v.session != 0 {
		l.extend(v, l.deadline.answered(sent, l.now()))
	}
}

// Proved records that the server has answered a request that needs the quorum, even with an error.
// Such a request is a write or a Multi of checks; a read or a Sync is not. The request was sent at
// sent in that session. Read sent from the clock right before the call: earlier is safe, later is
// not.
//
// Take the newest packet whose answer had arrived HeartbeatAfter before sent. The new deadline is
// the time that packet was sent, plus the timeout. So send the next heartbeat that long after the
// answer to the last one arrived. A ticker of the same period ignores the round trip: each
// heartbeat is then slightly too early to count the last packet, and counts the one before it.
func (l *Link) Proved(session int64, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.view.Load(); v.session == session && session != 0 {
		l.extend(v, l.deadline.proved(sent))
	}
}

// extend publishes a later base; caller holds mu.
func (l *Link) extend(v *view, base time.Time) {
	if !base.After(v.base) {
		return
	}
	next := *v
	next.base, next.wall = base, base.UnixNano()
	l.view.Store(&next)
}

// wake closes the channel that Changed returned, and makes a new one; caller holds mu.
func (l *Link) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Epoch counts the handshakes that were answered. If two calls return the same epoch, no reconnect
// happened in between.
func (l *Link) Epoch() uint64 { return l.view.Load().epoch }

// Session returns the id of the current session, also while disconnected. It is 0 before the first
// session, after it expired and after the connection was closed.
func (l *Link) Session() int64 { return l.view.Load().session }

// Timeout returns the session timeout that the server granted, the shortest if it was granted
// several times. It may differ from the requested one, and is 0 before the first handshake.
func (l *Link) Timeout() time.Duration { return l.view.Load().timeout }

// IsClosed reports whether the application closed the connection. A closed connection never works
// again.
func (l *Link) IsClosed() bool { return l.view.Load().closed }

// HeartbeatAfter returns how long after the answer to a heartbeat the next one should be sent, see
// Proved. It is 0 before the first handshake.
func (l *Link) HeartbeatAfter() time.Duration { return settle(l.Timeout()) }

// Deadline returns the time until which the session is known to be alive, or the zero time if it is
// not the current session. It is for timers. A timer follows only the monotonic clock, so decisions
// must use Alive.
func (l *Link) Deadline(session int64) time.Time {
	v := l.view.Load()
	if v.session != session || session == 0 {
		return time.Time{}
	}
	return v.base.Add(v.timeout)
}

// Alive reports whether the session is the current one and its deadline is in the future, by the
// monotonic clock and by the wall clock. Both must agree, because the monotonic clock stops while a
// machine is suspended, and the wall clock may be set back. Setting the wall clock forward ends a
// session early, which is safe.
func (l *Link) Alive(session int64) bool {
	// Load the state first and read the clock after it: if the process is frozen between the two,
	// the clock must be the late one.
	v := l.view.Load()
	if v.session != session || session == 0 {
		return false
	}
	now := l.now()
	return now.Sub(v.base) < v.timeout && time.Duration(now.UnixNano()-v.wall) < v.timeout
}

// Changed returns a channel that is closed at the next change: connected, disconnected, expired,
// closed. Call it before reading the state, or a change between the two is missed. After the
// connection is closed, the channel is always closed.
func (l *Link) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}
