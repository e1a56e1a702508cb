package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Reasons for which a hold is declared lost.
var (
	errExpired = errors.New("the session has expired")
	errUnheard = errors.New("no server has confirmed the session for so long that it may be over")
)

// A Lease is what a waiter, and the grant that it becomes, has in its session. While a session has
// leases, heartbeats extend its deadline, and the monitor reports the loss of the session to each.
type Lease struct {
	client  *Client
	session int64
	lose    func(error)
}

// monitor sends the heartbeats of a connection and has the timer for its deadline. It has a
// goroutine only while a heartbeat is under way or the timer fires.
type monitor struct {
	client *Client

	telling  sync.Mutex // held while a loss is told: a second Tick waits for the first. Lock order: telling, mu
	mu       sync.Mutex
	leases   map[*Lease]struct{}
	timer    *time.Timer
	nextBeat time.Time
	giveUp   func() // ends the wait for a connection of the heartbeat under way; nil: none is

	beating atomic.Pointer[time.Time] // when the heartbeat under way began; nil: none is
}

// Keep begins a lease.
func (c *Client) Keep(session int64) *Lease {
	l := &Lease{client: c, session: session}
	m := &c.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leases == nil {
		m.leases = make(map[*Lease]struct{})
	}
	m.leases[l] = struct{}{}
	if len(m.leases) == 1 {
		now := time.Now()
		m.nextBeat = now.Add(c.conn.HeartbeatAfter()) // the caller has just received an answer from the quorum
		m.schedule(now)
	}
	return l
}

// OnLoss registers lose, which the monitor calls at most once, on any goroutine, when the session
// must be considered lost.
func (l *Lease) OnLoss(lose func(error)) {
	m := &l.client.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	l.lose = lose
}

// End ends the lease. The end of the last lease stops the heartbeat.
func (l *Lease) End() {
	m := &l.client.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, l)
	if len(m.leases) > 0 {
		return
	}
	if m.timer != nil {
		m.timer.Stop()
	}
	if m.giveUp != nil {
		m.giveUp()
	}
}

// Alive returns why the session must be considered lost, or nil. It sends no request and is cheap.
// It is right at once after the process was stopped for a while.
func (l *Lease) Alive() error {
	conn := l.client.conn
	switch {
	case conn.Alive(l.session):
		return nil
	case conn.IsClosed():
		return ErrClosed
	case conn.Session() != l.session:
		return errExpired
	}
	return fmt.Errorf("%w: its timeout is %v", errUnheard, conn.Timeout())
}

// Deadline returns the time until which the session is known to be alive, or the zero time if the
// session is over.
func (l *Lease) Deadline() time.Time { return l.client.conn.Deadline(l.session) }

// schedule sets the timer to the next heartbeat or the deadline, whichever is first; caller holds
// mu.
func (m *monitor) schedule(now time.Time) {
	conn := m.client.conn
	next := m.nextBeat
	if m.giveUp != nil {
		next = now.Add(conn.HeartbeatAfter()) // beat calls Tick when the heartbeat is answered
	}
	if deadline := conn.Deadline(conn.Session()); !deadline.IsZero() && deadline.Before(next) {
		next = deadline
	}
	wait := next.Sub(now)
	if wait <= 0 {
		// After the deadline has passed it stays in the past until an answer arrives, so the
		// monitor must pause here. It must not pause before the deadline: it would report the loss
		// late if the deadline is nearer than the pause.
		wait = max(time.Millisecond, conn.HeartbeatAfter()/64)
	}
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, m.Tick)
	} else {
		m.timer.Reset(wait)
	}
}

// Hurry sends a heartbeat now, and sets the timer by the present deadline: both were planned by a
// longer timeout. It does not leave the heartbeat to the timer, which schedule sets later than the
// deadline where a heartbeat is due and none is under way.
func (m *monitor) Hurry() {
	m.mu.Lock()
	m.nextBeat = time.Now()
	m.mu.Unlock()
	m.Tick()
}

// Tick tells the leases of sessions that are over, begins a heartbeat if one is due, and sets the
// timer. When it returns, those that another call has begun to tell have been told, too.
func (m *monitor) Tick() {
	m.telling.Lock()
	defer m.telling.Unlock()
	var lost []func()
	m.mu.Lock()
	if len(m.leases) == 0 {
		m.mu.Unlock()
		return
	}
	now := time.Now()
	for l := range m.leases {
		if l.lose == nil {
			continue
		}
		if why := l.Alive(); why != nil { // takes no lock
			lose := l.lose
			l.lose = nil
			lost = append(lost, func() { lose(why) })
		}
	}
	if m.giveUp == nil && !now.Before(m.nextBeat) {
		ctx, giveUp := context.WithCancel(context.Background())
		m.giveUp = giveUp
		m.beating.Store(&now)
		go m.beat(ctx)
	}
	m.schedule(now)
	m.mu.Unlock()
	for _, lose := range lost {
		lose()
	}
}

// beat sends one heartbeat and waits for its answer. On a dead connection that takes until the zk
// client gives the connection up. After a reconnect the old deadline stays until the quorum has
// answered, and may be near. So if a heartbeat is lost, beat sends it again as soon as there is a
// connection.
func (m *monitor) beat(ctx context.Context) {
	c := m.client
	for retry := c.retry(); c.connected(ctx) == nil; {
		_, err := c.quorumCheck(c.conn.SessionID(), barrier)
		if o := outcomeOf(err); (o == done || o == refused) && !c.conn.Unconfirmed() {
			break
		}
		if retry.wait(ctx) != nil {
			break
		}
	}
	m.mu.Lock()
	m.giveUp()
	m.giveUp = nil
	m.beating.Store(nil)
	m.nextBeat = time.Now().Add(c.conn.HeartbeatAfter())
	m.mu.Unlock()
	// Not schedule alone: the answer may be of the next session, whose deadline is later than that
	// of the leases of the former one.
	m.Tick()
}
