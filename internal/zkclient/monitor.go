package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Reasons for which a hold is declared lost.
var (
	errExpired = errors.New("the session has expired")
	errUnheard = errors.New("nothing was heard of the session for as long as it lives")
)

// Lease is one member's interest in its session: while there are any, heartbeats
// keep the session's deadline known, and its end is told.
type Lease struct {
	client  *Client
	session int64
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
	link := l.client.link
	switch {
	case link.Alive(l.session):
		return nil
	case link.IsClosed():
		return ErrClosed
	case link.Session() != l.session:
		return errExpired
	}
	return fmt.Errorf("%w: %v", errUnheard, link.Timeout())
}

// Deadline is the instant until which the session is known to live, the zero time if it is over.
func (l *Lease) Deadline() time.Time { return l.client.link.Deadline(l.session) }

// period is the time from the answer of a heartbeat to the next one.
func (m *monitor) period() time.Duration { return m.client.link.HeartbeatAfter() }

// schedule sets the timer to whatever comes first; caller holds mu.
func (m *monitor) schedule(now time.Time) {
	next := m.nextBeat
	if !m.beating.IsZero() {
		next = now.Add(m.period()) // looked at again when it is answered
	}
	link := m.client.link
	if deadline := link.Deadline(link.Session()); !deadline.IsZero() && deadline.Before(next) {
		next = deadline
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
	m.client.beat(ctx)
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

// beat is one heartbeat. After a reconnect the old
// deadline stays until the quorum has answered, and may be near: so a heartbeat
// that was lost is sent again as soon as there is a connection.
func (c *Client) beat(ctx context.Context) {
	for retry := c.retry(); ; {
		if c.connected(ctx) != nil {
			return
		}
		_, err := c.quorumCheck(c.conn.SessionID(), barrier)
		if o := outcomeOf(err); (o == done || o == refused) && !c.link.Unconfirmed() {
			return
		}
		if retry.wait(ctx) != nil {
			return
		}
	}
}
