// Package liveness carries what a connection made by wire knows about itself and a bare *zk.Conn cannot tell: the session
// timeout that the server granted, how often the connection was made anew, whether it was closed for good, and until
// which instant its session is known to live.
//
// Package wire tells a Link what happens on the connection; the locks ask it. But for WatchAll a Link calls no other code and blocks no caller.
package liveness

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Link is the state of one connection. All methods may be called from any goroutine.
type Link struct {
	// Servers are the addresses that the connection may go to. They do not change.
	Servers []string

	now      func() time.Time
	watchAll func(paths []string, mark string) ([]<-chan zk.Event, error) // see WatchAll

	// view is what the readers see. It is replaced, never changed, so that Alive costs one load and one look at the clock.
	view atomic.Pointer[view]

	births births
	parted atomic.Bool

	mu        sync.Mutex // orders the writers; guards everything below
	touches   touches
	connected bool
	down      time.Time // since when it is not connected
	changed   chan struct{}
	onClosed  func() // see OnClosed

	userMu sync.Mutex // lock order: userMu, mu
	user   any        // see User
}

// view is one consistent answer to all questions.
type view struct {
	epoch   uint64
	session int64
	timeout time.Duration
	base    time.Time // the session was heard of by the leader at or after base
	wall    int64     // base in Unix nanoseconds, for the second clock
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

// WatchesBy says how data watches are set on many nodes with one request. It is called before anybody else has the Link.
func (l *Link) WatchesBy(watchAll func(paths []string, mark string) ([]<-chan zk.Event, error)) {
	l.watchAll = watchAll
}

// WatchAll sets a data watch on each of the nodes, with one request for each 128 KiB of paths, and waits for the server's
// answer. A channel yields one event and is closed then; zk.EventNotWatching when the connection ends, for these watches
// end with it. That of a node that does not exist is nil. The error is that of the connection or the
// server's.
//
// The first of the nodes may have a mark, if that is not "": another node, that is made and deleted in the transaction that
// deletes it. If that happens its event is zk.EventNodeCreated, with the path of the mark.
func (l *Link) WatchAll(paths []string, mark string) ([]<-chan zk.Event, error) {
	return l.watchAll(paths, mark)
}

// Connected tells that a handshake, whose request went out at sent, was answered with this session and this timeout.
// A new session was made by the quorum, so its deadline counts from sent. One that was resumed keeps the deadline it had,
// until a quorum request has proved the handshake, see touches.
func (l *Link) Connected(session int64, granted time.Duration, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.view.Load()
	if old.closed {
		return
	}
	l.touches.reset(granted, sent)
	l.connected = true
	next := view{
		epoch:   old.epoch + 1,
		session: session,
		timeout: granted,
		base:    sent,
		wall:    sent.UnixNano(),
	}
	if session == old.session {
		l.touches.resumed(sent, l.now())
		longer := max(0, granted-old.timeout) // proves no more than the rest of the handshake
		next.base, next.wall = old.base.Add(-longer), old.wall-int64(longer)
	}
	l.view.Store(&next)
	l.wake()
}

// Unproved says whether the handshake that resumed the present session waits for a proof. A quorum request that is sent
// from now on brings it.
func (l *Link) Unproved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connected && l.touches.unproved
}

// Disconnected tells that the connection is gone. The session, and its deadline, stay.
func (l *Link) Disconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.connected || l.view.Load().closed {
		return
	}
	l.disconnect()
	l.wake()
}

// disconnect notes since when there is no connection; caller holds mu.
func (l *Link) disconnect() {
	if l.connected {
		l.connected, l.down = false, l.now()
	}
}

// Down is since when there is no connection; the zero time while there is one.
func (l *Link) Down() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connected {
		return time.Time{}
	}
	return l.down
}

// Expired tells that the server says that the session is over.
func (l *Link) Expired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.view.Load()
	if old.closed || old.session == 0 && !l.connected {
		return
	}
	l.disconnect()
	l.view.Store(&view{epoch: old.epoch, timeout: old.timeout})
	l.wake()
}

// MarkClosed tells that the connection was closed by its user. It is final: whatever is told later is ignored.
func (l *Link) MarkClosed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.view.Load()
	if old.closed {
		return
	}
	l.disconnect()
	l.view.Store(&view{epoch: old.epoch, timeout: old.timeout, closed: true})
	close(l.changed) // and never made anew: Changed stays closed
}

// User returns what uses the connection on behalf of all locks: what the first call has made.
func (l *Link) User(make func() any) any {
	l.userMu.Lock()
	defer l.userMu.Unlock()
	if l.user == nil {
		l.user = make()
	}
	return l.user
}

// OnClosed has f called when the connection is closed by its user, before a server is asked to end the session. f must not wait.
func (l *Link) OnClosed(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onClosed = f
}

// TellClosed calls that function, once, if the connection was closed.
func (l *Link) TellClosed() {
	if !l.IsClosed() {
		return
	}
	l.mu.Lock()
	f := l.onClosed
	l.onClosed = nil
	l.mu.Unlock()
	if f != nil {
		f()
	}
}

// Parted tells that a server has ended the session because it was asked to.
func (l *Link) Parted() { l.parted.Store(true) }

// HasParted reports whether that was told.
func (l *Link) HasParted() bool { return l.parted.Load() }

// Answered tells that a packet, sent at that time on the present connection, has been answered just now.
func (l *Link) Answered(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.view.Load(); v.session != 0 {
		l.extend(v, l.touches.answered(sent, l.now()))
	}
}

// Proved tells that a request which needs the quorum (a write, or a Multi of checks; not a read, not a Sync), sent at
// that time in that session, has been answered by the server, be it with an error. sent is best read from the clock
// right before the call: earlier is safe, later is not.
//
// The deadline moves to that of the newest packet that had been answered HeartbeatAfter before
// sent. So send the next heartbeat that long after the *answer* of the last one; a ticker of that
// period, blind to the round trip, just misses the last packet each time and gets the one before.
func (l *Link) Proved(session int64, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.view.Load(); v.session == session && session != 0 {
		l.extend(v, l.touches.proved(sent))
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

// wake ends every wait on Changed; caller holds mu.
func (l *Link) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Epoch counts the handshakes that were answered: another number means that the connection has been made anew since.
func (l *Link) Epoch() uint64 { return l.view.Load().epoch }

// Session is the id of the current session, also while disconnected; 0 before the first one, after an expiry and after
// the connection was closed.
func (l *Link) Session() int64 { return l.view.Load().session }

// Timeout is the session timeout that the server granted last, which need not be the one asked for; 0 before the first
// handshake.
func (l *Link) Timeout() time.Duration { return l.view.Load().timeout }

// IsClosed says whether the connection was closed by its user. A closed connection never works again.
func (l *Link) IsClosed() bool { return l.view.Load().closed }

// HeartbeatAfter is how long after an answer the next heartbeat is to be sent, see Proved; 0 before
// the first handshake.
func (l *Link) HeartbeatAfter() time.Duration { return settle(l.Timeout()) }

// Deadline is the instant until which the session is known to live; the zero time if it is not the current one. It is
// for timers. To decide, ask Alive: a timer follows the monotonic clock only.
func (l *Link) Deadline(session int64) time.Time {
	v := l.view.Load()
	if v.session != session || session == 0 {
		return time.Time{}
	}
	return v.base.Add(v.timeout)
}

// Alive says whether the session is the current one and its deadline lies ahead, by the monotonic clock and by the wall
// clock. The one that has run further wins: the monotonic clock stands still while a machine is suspended, and the wall
// clock may be set back. Setting it forward ends a session early, which is the safe side.
func (l *Link) Alive(session int64) bool {
	// The state first and the clock after it: a process frozen between the two must see the late clock.
	v := l.view.Load()
	if v.session != session || session == 0 {
		return false
	}
	now := l.now()
	return now.Sub(v.base) < v.timeout && time.Duration(now.UnixNano()-v.wall) < v.timeout
}

// Changed returns a channel that is closed at the next change: connected, disconnected, expired, closed. Take it before
// you look at the state, or the change between the two is missed. Once the connection is closed the channel is, too.
func (l *Link) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}
