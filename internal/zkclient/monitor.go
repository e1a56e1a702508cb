package zkclient

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Reasons for which a hold is declared lost.
var (
	errExpired = errors.New("the session has expired")
	errUnheard = errors.New("no server has confirmed the session for so long that it may be over")
)

// A Lease is what a waiter, and the grant that it becomes, has in its session. While a connection
// has leases, its heartbeats extend the deadline of its session, and the monitor reports the loss
// of the session to each.
type Lease struct {
	client  *Client
	session int64
	lose    func(error)
}

// monitor has the leases of a connection, and the timer for its deadline.
type monitor struct {
	client *Client

	telling sync.Mutex // held while losses are reported: a second Check waits for the first
	mu      sync.Mutex
	leases  map[*Lease]struct{}
	timer   *time.Timer // nil before the first OnLoss
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
		c.conn.KeepAlive(true)
	}
	return l
}

// OnLoss registers lose, which the monitor calls at most once, on another goroutine, when the
// session must be considered lost.
func (l *Lease) OnLoss(lose func(error)) {
	m := &l.client.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	l.lose = lose
	m.schedule()
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
	l.client.conn.KeepAlive(false)
	if m.timer != nil {
		m.timer.Stop()
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

// schedule sets the timer to the present deadline: the answers of servers move it, and the timer
// only finds that it has moved. A deadline that has passed is not in the way: Check has told all
// leases then that have something to lose, and OnLoss calls schedule for the next. The caller holds
// mu.
func (m *monitor) schedule() {
	conn := m.client.conn
	wait := time.Until(conn.Deadline(conn.Session()))
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, m.Check)
	} else {
		m.timer.Reset(wait)
	}
}

// Check reports the loss to the leases of sessions that are over, and sets the timer. When it
// returns, the reports that another call has begun are complete, too.
func (m *monitor) Check() {
	m.telling.Lock()
	defer m.telling.Unlock()
	var lost []func()
	remains := false
	m.mu.Lock()
	for l := range m.leases {
		if l.lose == nil {
			continue
		}
		why := l.Alive() // takes no lock
		if why == nil {
			remains = true
			continue
		}
		lose := l.lose
		l.lose = nil
		lost = append(lost, func() { lose(why) })
	}
	if remains {
		m.schedule()
	}
	m.mu.Unlock()
	for _, lose := range lost {
		lose()
	}
}
