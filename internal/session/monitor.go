package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Reasons for which a hold is declared lost.
var (
	errExpired      = errors.New("the session has expired")
	errUnheard      = errors.New("nothing was heard of the session for as long as it lives")
	errDisconnected = errors.New("the connection was lost")
)

// On a connection that zkconn did not make, the session timeout is not known.
const (
	foreignLook  = 20 * time.Millisecond // how often its state is looked at
	foreignBeat  = time.Second           // how often its quorum is asked
	foreignQuiet = 2 * time.Second       // how long that may go unanswered
)

// Lease is one member's interest in its session: while there are any, heartbeats
// keep the session's deadline known, and its end is told.
type Lease struct {
	client  *Client
	session int64
	grace   time.Duration
	lose    func(error)
}

// monitor is the one heartbeat and the one alarm clock of a connection. It has
// no goroutine of its own while nothing happens.
type monitor struct {
	client *Client

	mu       sync.Mutex
	leases   map[*Lease]struct{}
	timer    *time.Timer
	nextBeat time.Time
	beating  time.Time // when the heartbeat under way was begun; zero if none is
	giveUp   func()    // ends its wait for a connection
	lastUp   time.Time // when the connection was last seen with a session
}

// Keep begins a lease. grace is how long a connection that zkconn did not make
// may be down before its session is taken for lost.
func (c *Client) Keep(session int64, grace time.Duration) *Lease {
	l := &Lease{client: c, session: session, grace: grace}
	m := &c.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leases == nil {
		m.leases = make(map[*Lease]struct{})
	}
	m.leases[l] = struct{}{}
	if len(m.leases) == 1 {
		now := time.Now()
		m.lastUp = now
		m.nextBeat = now.Add(m.period()) // whoever begins has just heard from the quorum
		m.schedule(now)
	}
	return l
}

// OnLoss has lose called, at most once and from a goroutine of the monitor, when
// the session must be taken for lost.
func (l *Lease) OnLoss(lose func(error)) {
	m := &l.client.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	l.lose = lose
}

// End ends the lease. The last one stops the heartbeat.
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

// Alive returns why the session must be taken for lost, or nil. It is local and
// cheap, and right at the first look after the process was stopped for a while.
func (l *Lease) Alive() error {
	if link := l.client.link; link != nil && link.Alive(l.session) {
		return nil
	}
	return l.dead()
}

// dead finds out why Alive has nothing good to say, or asks where there is no link.
func (l *Lease) dead() error {
	c := l.client
	if c.link != nil {
		switch {
		case c.link.IsClosed():
			return ErrClosed
		case c.link.Session() != l.session:
			return errExpired
		}
		return fmt.Errorf("%w: %v", errUnheard, c.link.Timeout())
	}
	if !c.In(l.session) {
		return errExpired
	}
	m := &c.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.foreignAlive(l, time.Now())
}

// Deadline is the instant until which the session is known to live. On a
// connection that zkconn did not make nothing is known.
func (l *Lease) Deadline() (deadline time.Time, known bool) {
	if l.client.link == nil {
		return time.Time{}, false
	}
	deadline = l.client.link.Deadline(l.session)
	return deadline, !deadline.IsZero()
}

// foreignAlive judges a lease by what can be seen from outside: the connection's
// state, and a heartbeat that stays unanswered because the server we are
// connected to is alone; caller holds mu.
func (m *monitor) foreignAlive(l *Lease, now time.Time) error {
	if m.client.conn.State() == zk.StateHasSession {
		m.lastUp = now
	} else if now.Sub(m.lastUp) >= l.grace {
		return errDisconnected
	}
	if !m.beating.IsZero() && now.Sub(m.beating) >= foreignQuiet+l.grace {
		return fmt.Errorf("%w: heartbeat unanswered for %v", errDisconnected, now.Sub(m.beating).Round(time.Millisecond))
	}
	return nil
}

// period is the time from the answer of a heartbeat to the next one.
func (m *monitor) period() time.Duration {
	if link := m.client.link; link != nil {
		return link.HeartbeatAfter()
	}
	return foreignBeat
}

// schedule sets the timer to whatever comes first; caller holds mu.
func (m *monitor) schedule(now time.Time) {
	next := m.nextBeat
	if link := m.client.link; link == nil {
		next = now.Add(foreignLook)
	} else {
		if !m.beating.IsZero() {
			next = now.Add(m.period()) // looked at again when it is answered
		}
		if deadline := link.Deadline(link.Session()); !deadline.IsZero() && deadline.Before(next) {
			next = deadline
		}
	}
	wait := next.Sub(now)
	if wait <= 0 {
		// A deadline that has passed stays passed until something is heard, so the monitor
		// must pause here. It must not pause before: a deadline that is nearer than this
		// would be told late.
		wait = max(time.Millisecond, m.period()/64)
	}
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, m.tick)
	} else {
		m.timer.Reset(wait)
	}
}

func (m *monitor) tick() {
	var lost []func()
	m.mu.Lock()
	if len(m.leases) == 0 {
		m.mu.Unlock()
		return
	}
	now := time.Now()
	c := m.client
	if c.link == nil && c.conn.State() == zk.StateHasSession {
		m.lastUp = now
	}
	for l := range m.leases {
		if l.lose == nil {
			continue
		}
		var why error
		if c.link != nil || !c.In(l.session) {
			why = l.Alive() // takes no lock on these ways
		} else {
			why = m.foreignAlive(l, now)
		}
		if why != nil {
			lose := l.lose
			l.lose = nil
			lost = append(lost, func() { lose(why) })
		}
	}
	if m.beating.IsZero() && !now.Before(m.nextBeat) {
		ctx, giveUp := context.WithCancel(context.Background())
		m.beating, m.giveUp = now, giveUp
		go m.beat(ctx)
	}
	m.schedule(now)
	m.mu.Unlock()
	for _, lose := range lost {
		lose()
	}
}

// beat sends one heartbeat and waits for its answer, which on a dead connection
// takes until the client gives that up.
func (m *monitor) beat(ctx context.Context) {
	c := m.client
	if c.link == nil {
		_, _ = c.prove(c.conn.SessionID(), barrier)
	} else {
		c.beat(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveUp()
	m.beating, m.giveUp = time.Time{}, nil
	if len(m.leases) > 0 {
		now := time.Now()
		m.nextBeat = now.Add(m.period())
		m.schedule(now)
	}
}

// beat is one heartbeat on a connection of zkconn's. After a reconnect the old
// deadline stays until the quorum has answered, and may be near: so a heartbeat
// that was lost is sent again as soon as there is a connection.
func (c *Client) beat(ctx context.Context) {
	for retry := c.retry(); ; {
		if c.connected(ctx) != nil {
			return
		}
		_, err := c.prove(c.conn.SessionID(), barrier)
		if o := outcomeOf(err); (o == done || o == refused) && !c.link.Unproved() {
			return
		}
		if retry.wait(ctx) != nil {
			return
		}
	}
}
