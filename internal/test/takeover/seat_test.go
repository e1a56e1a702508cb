package takeover

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

const (
	// patience is for what should take seconds.
	patience = 60 * time.Second
	// lasting is the session timeout of clients without a fault.
	lasting = 60 * time.Second
)

// seat is one lock, a holder that a fault will hit, and a next waiter that it will not hit.
type seat struct {
	testing.TB
	recipe
	venue   venue.Venue
	path    string
	timeout time.Duration
	holder  *wire.Conn
	witness *wire.Conn // of the next waiter
	take    acquire
	follow  acquire
}

func newSeat(t testing.TB, v venue.Venue, r recipe, timeout time.Duration, holder, next *wire.Conn) *seat {
	t.Helper()
	path := test.Path(t)
	return &seat{
		TB: t, recipe: r, venue: v, path: path, timeout: timeout, holder: holder, witness: next,
		take: r.hold(holder, path), follow: r.next(next, path),
	}
}

// sitting is one hold, from its grant to the grant of the next one.
type sitting struct {
	*seat
	hold *zklocks.Hold
	ctx  context.Context
	own  bool // the fault spares the session
	told chan news
	next *contract.Attempt[grant]
}

// news is the loss as seen by a goroutine that waited on Lost.
type news struct {
	due int64 // the deadline, if it was what ended the hold
	at  int64 // when the goroutine woke up
}

// grant is what is true when the acquiring call of the next one has returned.
type grant struct {
	*zklocks.Hold
	at    int64
	held  bool // the first one still says that it holds
	open  bool // or its Lost is not closed
	state zk.State
}

// sit takes the lock, and returns when the next waiter has queued.
func (s *seat) sit(ctx context.Context) *sitting {
	s.Helper()
	h, err := s.take(ctx)
	if err != nil {
		s.Fatal(err)
	}
	a := &sitting{seat: s, hold: h, ctx: h.Context(ctx), told: make(chan news, 1)}
	lost, session := h.Lost(), s.holder.SessionID()
	go func() {
		select {
		case <-lost:
			a.told <- s.heard(session)
		case <-a.ctx.Done(): // released; after a loss both are ready
			if closed(lost) {
				a.told <- s.heard(session)
			}
		}
	}()
	a.next = contract.Begin(s, ctx, func(ctx context.Context) (grant, error) {
		next, err := s.follow(ctx)
		at := now(s.venue)
		return grant{next, at, h.Held(), !closed(lost), s.holder.State()}, err
	})
	test.Eventually(s, patience, "the next one stands in line", func() bool {
		return len(test.Children(s, s.witness, s.path+s.below)) == 2 || closed(lost)
	})
	return a
}

// lost waits until the next waiter holds, asserts that the first holder knew of its loss before,
// and records the times. The next one then releases the lock.
func (a *sitting) lost(what string, fault int64, to *tally) {
	a.Helper()
	test.Within(a, patience, "the next one holds", func() { <-a.next.Done })
	if a.next.Err != nil {
		a.Fatal(a.next.Err)
	}
	g := a.next.Hold
	l := loss{what: what, recipe: a.name, timeout: a.timeout, own: a.own, granted: time.Duration(g.at - fault), state: g.state}
	var n news
	test.Within(a, patience, "the holder is told", func() { n = <-a.told })
	l.due, l.told = time.Duration(n.due-fault), time.Duration(n.at-fault)
	var slow time.Duration
	if !a.venue.Virtual() {
		slow = stoodBetween(n.due, n.at)
	}
	switch {
	case g.held || g.open:
		a.Errorf("%v: when the next one holds, the first one's Held is %v, its Lost closed %v", l, g.held, !g.open)
	case a.venue.Virtual() && (l.told != l.due || l.told >= l.granted):
		a.Errorf("%v: told neither at the deadline nor before the grant", l)
	case l.due >= l.granted && n.due != n.at:
		a.Errorf("%v: the deadline lies behind the grant", l)
	case a.own: // the holder's own delete granted the lock, once it knew
	case l.due > a.timeout && n.due != n.at:
		a.Errorf("%v: the deadline lies more than the session timeout behind the fault", l)
	case l.told >= l.granted+slow:
		a.Errorf("%v: told too late; from the deadline on this process stood for %v", l, slow)
	case l.told >= l.granted:
		a.Logf("%v: woken too late; from the deadline on this process stood for %v", l, slow)
	}
	if a.hold.Held() || !errors.Is(context.Cause(a.ctx), hold.ErrLost) {
		a.Errorf("%v: a lost hold says held %v, context %v", l, a.hold.Held(), context.Cause(a.ctx))
	}
	a.must(g.Release(context.Background()))
	to.add(l)
}

// heard is what a goroutine records that has just learned of a loss.
func (s *seat) heard(session int64) news {
	at := now(s.venue)
	return news{due(s.venue, s.holder, session, at), at}
}

// due is the deadline of a session, or at, if it is not known or later.
func due(v venue.Venue, conn *wire.Conn, session, at int64) int64 {
	l := conn
	if l == nil {
		return at
	}
	deadline := l.Deadline(session)
	if deadline.IsZero() {
		return at
	}
	for { // two looks at the clock, with nothing between them
		before := now(v)
		ago := time.Since(deadline)
		if now := now(v); now-before < int64(time.Millisecond) {
			return min(at, now-int64(ago))
		}
	}
}

// now is one clock for all that has to do with a venue.
func now(v venue.Venue) int64 {
	if v.Virtual() {
		return time.Now().UnixNano()
	}
	return history.Now()
}

// stood returns for how long this process has not run since then, in total. In virtual time it
// always runs.
func (s *seat) stood(since int64) time.Duration {
	if s.venue.Virtual() {
		return 0
	}
	return stood(since)
}

// packet waits until a fault strikes at one; not if the hold is lost before: then nothing is sent
// any more.
func (a *sitting) packet(f *proxy.Fault) (struck bool) {
	a.Helper()
	a.Cleanup(f.Cancel)
	test.Within(a, patience, "the packet", func() {
		select {
		case <-f.Fired():
			struck = true
		case <-a.hold.Lost():
			f.Cancel()
		}
	})
	return struck
}

// survived releases the lock if it is still held, and then that of the next holder.
func (a *sitting) survived() bool {
	a.Helper()
	err := a.hold.Release(context.Background())
	if errors.Is(err, hold.ErrLost) {
		return false
	}
	a.must(err)
	if g := a.next.Granted(); g.held {
		a.Errorf("%s: released, and held", a.path)
	} else {
		a.must(g.Release(context.Background()))
	}
	return true
}

// done ends a lost hold.
func (a *sitting) done() {
	a.Helper()
	if err := a.hold.Release(context.Background()); !errors.Is(err, hold.ErrLost) {
		a.Errorf("release after the loss: %v", err)
	}
}

// back waits until the holder's connection answers.
func (s *seat) back() {
	s.Helper()
	test.Eventually(s, patience, "the holder's connection is back", func() bool {
		_, _, err := s.holder.Exists("/")
		return err == nil
	})
}

func (s *seat) empty() { s.Helper(); test.AssertEmpty(s, s.witness, s.path+s.below) }

func (s *seat) must(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// linger lets time pass: a fault comes at an instant that nothing announces.
func linger(d time.Duration) {
	timer := time.NewTimer(d) // real: no event announces it
	<-timer.C
}

func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
