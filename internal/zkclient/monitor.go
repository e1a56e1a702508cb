package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
)

// Reasons for a loss.
var (
	errExpired = errors.New("the session has expired")
	errUnheard = errors.New("no server has confirmed the session for so long that it may be over")
)

// A Lease belongs to a waiter, and later to its grant. While a connection has leases, its
// heartbeats extend the deadline of its session, and the monitor reports the loss of the session to
// each lease.
type Lease struct {
	client  *Client
	session int64

	// Guarded by monitor.mu; nil until a caller wants them.
	holder any // the grant that the lease belongs to; nil: a waiter or an observer
	lose   func(error)
	over   context.Context
	cancel context.CancelCauseFunc // of over
}

// monitor has the leases of a connection, and a timer for the session's deadline.
type monitor struct {
	client *Client

	mu     sync.Mutex // tier 3; guards what follows, and fields of Lease
	leases map[*Lease]struct{}
	timer  *time.Timer // nil before the first OnLoss or Over
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

// Heartbeats returns how many of the heartbeats in a time are due to this lease. All leases of the
// connection share them.
func (l *Lease) Heartbeats(d time.Duration) float64 {
	m := &l.client.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(d) / float64(l.client.conn.BeatPeriod()) / float64(max(1, len(m.leases)))
}

// OnLoss registers lose, and holder for Holders. The monitor calls lose, on another goroutine, when
// the session must be considered lost, and again in each Check until the lease ends. lose must
// return when the holders have been notified, also if another call notifies them.
func (l *Lease) OnLoss(holder any, lose func(error)) {
	m := &l.client.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	l.holder, l.lose = holder, lose
	m.schedule()
}

// Holders returns the grants whose leases have not ended.
func (c *Client) Holders() (holders []any) {
	m := &c.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.leases {
		if l.holder != nil {
			holders = append(holders, l.holder)
		}
	}
	return holders
}

// Over returns a context that is canceled when the session must be considered lost. Its cause is
// the reason. After End it is not canceled any more. Keep cannot make it: after an outage a waiter's
// lease begins before an answer shows that the session lives.
func (l *Lease) Over() context.Context {
	m := &l.client.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.over == nil {
		l.over, l.cancel = context.WithCancelCause(context.Background())
		m.schedule()
	}
	return l.over
}

// Finish makes a call, which runs to its end, and waits for it until ctx is canceled or the lease's
// session must be considered lost. Then the error has a description of what continues in the
// background; after a loss it matches hold.ErrLost.
func (l *Lease) Finish(ctx context.Context, goingOn string, call func() error) error {
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- call() }()
	err, answered := l.Await(ctx, ended)
	switch {
	case answered, errors.Is(err, hold.ErrLost): // another call has detected the loss first
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w (%s in the background)", l.client.explainSilence(ctx, err, began), goingOn)
	}
	return fmt.Errorf("%w: %w (not confirmed: %s in the background)", hold.ErrLost, err, goingOn)
}

// Await waits for an answer, until ctx is canceled or the lease's session must be considered lost:
// nothing that a lock does waits longer. Without an answer the error says which of the two it was.
func (l *Lease) Await(ctx context.Context, answer <-chan error) (err error, answered bool) {
	over := l.Over()
	select {
	case err := <-answer:
		return err, true
	case <-ctx.Done():
		return Ended(ctx), false
	case <-over.Done():
		return context.Cause(over), false
	}
}

// Lost ends the lease of a grant that was lost, and cancels Over, also for a later Finish.
func (l *Lease) Lost(why error) {
	l.Over()
	l.cancel(why)
	l.End()
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

// Alive returns why the session must be considered lost, or nil. It sends no request. After a pause
// of the process its first result is right.
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

// schedule sets the timer to the current deadline; caller holds mu. If answers have moved the
// deadline when the timer fires, Check sets the timer again.
func (m *monitor) schedule() {
	conn := m.client.conn
	wait := time.Until(conn.Deadline(conn.Session()))
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, m.Check)
	} else {
		m.timer.Reset(wait)
	}
}

// Check implements wire.Monitor. It also sets the timer, and searches for strays.
func (m *monitor) Check() {
	m.client.findStrays()
	var lost []func()
	m.mu.Lock()
	remains := false
	for l := range m.leases {
		if l.lose == nil && l.over == nil {
			continue
		}
		why := l.Alive() // takes no lock
		if why == nil {
			remains = true
			continue
		}
		if l.over != nil {
			l.cancel(why) // runs no hook: Over is only waited for
		}
		if lose := l.lose; lose != nil {
			lost = append(lost, func() { lose(why) })
		}
	}
	if remains {
		m.schedule()
	}
	m.mu.Unlock()
	for _, lose := range lost {
		lose()
	}
}
