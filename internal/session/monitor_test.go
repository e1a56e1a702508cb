package session

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/proxy"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// keep begins a lease and gives what it is told.
func (l *line) keep(t *testing.T, grace time.Duration) (*Lease, <-chan error) {
	t.Helper()
	lost := make(chan error, 10)
	lease := l.client.Keep(l.sess, grace)
	lease.OnLoss(func(why error) { lost <- why })
	t.Cleanup(lease.End)
	return lease, lost
}

// seen waits until the proxy has seen n more of a request.
func (l *line) seen(t *testing.T, op proxy.Op, n int64) {
	t.Helper()
	from := l.Seen(op)
	test.Eventually(t, 20*time.Second, op.String()+" requests", func() bool { return l.Seen(op) >= from+n })
}

func quiet(t *testing.T, lost <-chan error) {
	t.Helper()
	select {
	case err := <-lost:
		t.Errorf("lost: %v", err)
	default:
	}
}

func TestHeartbeatsAreSentWhileLeasesLive(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 2*time.Second)
		l.seen(t, proxy.PingOp, 2) // the client's own pings show that time passes
		if n := l.Seen(proxy.CheckOp); n != 0 {
			t.Errorf("%d heartbeats, and no lease keeps the session", n)
		}
		l.claim(t, 1) // as each lock that keeps: what was heard so far proves nothing
		one, lost := l.keep(t, 0)
		two, _ := l.keep(t, 0)
		l.seen(t, proxy.CheckOp, 3)
		one.End()
		l.seen(t, proxy.CheckOp, 2)
		two.End()
		two.End()
		last := l.Seen(proxy.CheckOp)
		l.seen(t, proxy.PingOp, 3)
		if n := l.Seen(proxy.CheckOp) - last; n != 0 {
			t.Errorf("%d heartbeats after the last lease", n)
		}
		l.claim(t, 1)
		again, _ := l.keep(t, 0)
		l.seen(t, proxy.CheckOp, 2)
		if err := again.Alive(); err != nil {
			t.Error(err)
		}
		quiet(t, lost)
	})
}

// In a black hole the session must be taken for lost before the server gives its
// nodes to others. Others see the node with eyes of their own.
func TestLossIsKnownBeforeTheServerExpiresTheSession(t *testing.T) {
	for name, mute := range map[string]func(*proxy.Proxy){"mute": (*proxy.Proxy).Mute, "replies muted": (*proxy.Proxy).MuteReplies, "refuse": (*proxy.Proxy).Refuse} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				l := newLine(t, v, 4*time.Second)
				node := l.claim(t, 1)[0]
				_, _, gone, err := l.witness.GetW(l.path(node))
				must(t, err)
				lease, lost := l.keep(t, 0)
				l.seen(t, proxy.CheckOp, 2)
				if err := lease.Alive(); err != nil {
					t.Fatal(err)
				}
				mute(l.Proxy)
				deadline, _ := lease.Deadline()
				why := result(t, 10*time.Second, "loss", lost)
				if late := time.Since(deadline); late != 0 {
					t.Errorf("told %v after the deadline", late)
				}
				select {
				case e := <-gone:
					t.Errorf("the server was faster: %v", e)
				default:
				}
				mustBe(t, why, errUnheard)
				mustBe(t, lease.Alive(), errUnheard)
				if name != "replies muted" { // there, pings go on to reach the server
					result(t, 15*time.Second, "the server expires the session", gone)
					if margin := time.Since(deadline); margin <= 0 {
						t.Errorf("the server expired the session %v after the deadline", margin)
					}
				}
				if len(lost) > 0 {
					t.Error("told twice")
				}
				must(t, l.Accept())
				l.Unmute()
			})
		})
	}
}

// The old deadline stays until the quorum has answered on the new connection, so the
// next heartbeat does not wait for its time.
func TestALostHeartbeatIsSentAgainAtOnce(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		const timeout = 24 * time.Second
		l := newLine(t, v, timeout)
		l.keep(t, 0)
		f := l.Next(proxy.CheckOp, proxy.CutBefore)
		result(t, timeout, "a heartbeat", f.Fired())
		next := l.Next(proxy.CheckOp, proxy.HoldReply)
		result(t, time.Nanosecond, "the next", next.Fired()) // a new connection takes no time here
		next.Release()
	})
}

// A session that lives on after all is alive again: it is the hold that is over.
func TestAliveComesBackWithTheConnection(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 4*time.Second)
		lease, lost := l.keep(t, 0)
		l.MuteReplies()
		result(t, 10*time.Second, "loss", lost)
		l.Unmute()
		test.Eventually(t, 10*time.Second, "alive again, or expired", func() bool {
			return lease.Alive() == nil || l.conn.SessionID() != l.sess && l.conn.SessionID() != 0
		})
		must(t, l.client.Refresh(within(t, 10*time.Second), l.conn.SessionID()))
	})
}

func TestTheEndOfTheSessionIsALoss(t *testing.T) {
	for name, connect := range map[string]connector{"zkconn": venue.Venue.Connect, "foreign": venue.Venue.ConnectForeign} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				l := newLineOn(t, v, connect, 10*time.Second, v.Servers(t)[0])
				lease, lost := l.keep(t, time.Minute) // as long as grace may be
				_, ended := l.keep(t, time.Minute)
				other := l.client.Keep(l.sess, time.Minute)
				told := make(chan error, 1)
				other.OnLoss(func(why error) { told <- why })
				other.End()
				v.Expire(t, l.conn)
				mustBe(t, result(t, 10*time.Second, "loss", lost), errExpired)
				mustBe(t, result(t, 10*time.Second, "loss of the other", ended), errExpired)
				mustBe(t, lease.Alive(), errExpired)
				l.newSession(t)
				mustBe(t, lease.Alive(), errExpired)
				quiet(t, told)
			})
		})
	}
}

func TestAClosedConnectionIsALoss(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 10*time.Second)
		lease, lost := l.keep(t, 0)
		l.conn.Close()
		mustBe(t, result(t, 10*time.Second, "loss", lost), ErrClosed)
		mustBe(t, lease.Alive(), ErrClosed)
	})
}

func TestAForeignConnectionLosesAtOnce(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLineOn(t, v, venue.Venue.ConnectForeign, 10*time.Second, v.Servers(t)[0])
		lease, lost := l.keep(t, 0)
		if err := lease.Alive(); err != nil {
			t.Fatal(err)
		}
		l.Refuse()
		mustBe(t, result(t, foreignLook+1, "loss", lost), errDisconnected)
		mustBe(t, lease.Alive(), errDisconnected)
		must(t, l.Accept())
	})
}

func TestAForeignConnectionHasItsGrace(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLineOn(t, v, venue.Venue.ConnectForeign, 20*time.Second, v.Servers(t)[0])
		lease, lost := l.keep(t, 6*time.Second)
		hasty, hastyLost := l.keep(t, 0)
		began := time.Now()
		l.Cut() // this client waits a second before it connects again
		mustBe(t, result(t, foreignLook+1, "loss without grace", hastyLost), errDisconnected)
		if err := lease.Alive(); err != nil {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		test.Eventually(t, 5*time.Second, "connected again", func() bool { return l.conn.State() == zk.StateHasSession })
		if err := lease.Alive(); err != nil {
			t.Error(err)
		}
		quiet(t, lost)
		hasty.End()

		short, shortLost := l.keep(t, 500*time.Millisecond)
		test.Eventually(t, 5*time.Second, "the monitor has seen the connection", func() bool { return short.Alive() == nil })
		l.Refuse()
		down := time.Now()
		mustBe(t, result(t, 5*time.Second, "loss after its grace", shortLost), errDisconnected)
		if took := time.Since(down); took <= 500*time.Millisecond-foreignLook || took > 500*time.Millisecond+foreignLook {
			t.Errorf("a grace of 500ms ended after %v", took)
		}
		quiet(t, lost)
		must(t, l.Accept())
	})
}

// The server is there and answers pings, but has lost its quorum: what a foreign
// connection can notice is that a heartbeat stays unanswered.
func TestAForeignConnectionNoticesAnUnansweredHeartbeat(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLineOn(t, v, venue.Venue.ConnectForeign, 30*time.Second, v.Servers(t)[0])
		hold := l.Next(proxy.CheckOp, proxy.HoldRequest)
		defer hold.Release()
		_, lost := l.keep(t, 0)
		fired(t, hold)
		began := time.Now()
		why := result(t, 10*time.Second, "loss", lost)
		mustBe(t, why, errDisconnected)
		if l.conn.State() != zk.StateHasSession {
			t.Errorf("the connection is %v: that was another reason", l.conn.State())
		}
		if took := time.Since(began); took < foreignQuiet || took > foreignQuiet+foreignLook {
			t.Errorf("lost after %v", took)
		}
	})
}

func TestRefreshWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 4*time.Second)
		must(t, l.client.Refresh(within(t, 10*time.Second), l.sess))
		hold := l.Next(proxy.CheckOp, proxy.HoldReply)
		done := async(func() error { return l.client.Refresh(within(t, 10*time.Second), l.sess) })
		fired(t, hold)
		select {
		case err := <-done:
			t.Errorf("refreshed without an answer: %v", err)
		default:
		}
		hold.Release()
		must(t, result(t, 10*time.Second, "refresh", done))
		v.Expire(t, l.conn)
		l.newSession(t)
		if err := l.client.Refresh(within(t, 10*time.Second), l.sess); !errors.Is(err, ErrOver) {
			t.Error(err)
		}
	})
}
