package zkclient

import (
	"errors"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// keep begins a lease and returns a channel that yields the reason for its loss.
func (l *line) keep(t *testing.T) (*Lease, <-chan error) {
	t.Helper()
	lost := make(chan error, 1)
	lease := l.client.Keep(l.sess)
	lease.OnLoss(nil, func(why error) {
		select {
		case lost <- why:
		default:
		}
	})
	t.Cleanup(lease.End)
	return lease, lost
}

// seen waits until the proxy has received n more requests of a kind.
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
	withLine(t, 2*time.Second, func(t *testing.T, l *line) {
		l.seen(t, proxy.PingOp, 2) // the zk client's own pings show that time passes
		if n := l.Seen(proxy.CheckOp); n != 0 {
			t.Errorf("%d heartbeats, and no lease keeps the session", n)
		}
		l.claim(t, 1) // sends a quorum request, as each lock does: without it the earlier packets prove nothing
		one, lost := l.keep(t)
		two, _ := l.keep(t)
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
		again, _ := l.keep(t)
		l.seen(t, proxy.CheckOp, 2)
		if err := again.Alive(); err != nil {
			t.Error(err)
		}
		quiet(t, lost)
	})
}

// If the server receives no more packets, the client must consider the session lost before the
// server deletes its nodes. The witness watches the node over another connection.
func TestLossIsKnownBeforeTheServerExpiresTheSession(t *testing.T) {
	for name, mute := range map[string]func(*proxy.Proxy){"mute": (*proxy.Proxy).Mute, "replies muted": (*proxy.Proxy).MuteReplies, "refuse": (*proxy.Proxy).Refuse} {
		t.Run(name, func(t *testing.T) {
			withLine(t, 4*time.Second, func(t *testing.T, l *line) {
				node := l.claim(t, 1)[0]
				_, _, gone, err := l.witness.Client().GetW(l.path(node))
				must(t, err)
				lease, lost := l.keep(t)
				l.seen(t, proxy.CheckOp, 2)
				if err := lease.Alive(); err != nil {
					t.Fatal(err)
				}
				mute(l.Proxy)
				deadline := lease.Deadline()
				why := result(t, 10*time.Second, "loss", lost)
				if late := time.Since(deadline); late != 0 {
					t.Errorf("reported %v after the deadline", late)
				}
				select {
				case e := <-gone:
					t.Errorf("the server was faster: %v", e)
				default:
				}
				mustBe(t, why, errUnheard)
				mustBe(t, lease.Alive(), errUnheard)
				if name != "replies muted" { // in that case pings still reach the server
					result(t, 15*time.Second, "the server expires the session", gone)
					if margin := time.Since(deadline); margin <= 0 {
						t.Errorf("the server expired the session %v after the deadline", margin)
					}
				}
				must(t, l.Accept())
				l.Unmute()
			})
		})
	}
}

// If an answer shows that the session is alive, its lease is alive again. The hold remains lost.
func TestAliveComesBackWithTheConnection(t *testing.T) {
	withLine(t, 4*time.Second, func(t *testing.T, l *line) {
		lease, lost := l.keep(t)
		l.MuteReplies()
		result(t, 10*time.Second, "loss", lost)
		l.Unmute()
		test.Eventually(t, 10*time.Second, "alive again, or expired", func() bool {
			return lease.Alive() == nil || l.conn.Session() != l.sess && l.conn.Session() != 0
		})
		must(t, l.client.Refresh(within(t, 10*time.Second), l.conn.Session()))
	})
}

func TestTheEndOfTheSessionIsALoss(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		lease, lost := l.keep(t)
		_, ended := l.keep(t)
		other := l.client.Keep(l.sess)
		told := make(chan error, 1)
		other.OnLoss(nil, func(why error) { told <- why })
		other.End()
		l.v.Expire(t, l.conn)
		mustBe(t, result(t, 10*time.Second, "loss", lost), errExpired)
		mustBe(t, result(t, 10*time.Second, "loss of the other", ended), errExpired)
		mustBe(t, lease.Alive(), errExpired)
		l.newSession(t)
		mustBe(t, lease.Alive(), errExpired)
		quiet(t, told)
	})
}

func TestAClosedConnectionIsALoss(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		lease, lost := l.keep(t)
		l.conn.Close()
		mustBe(t, result(t, 10*time.Second, "loss", lost), ErrClosed)
		mustBe(t, lease.Alive(), ErrClosed)
	})
}

// For a minute after a create whose nodes were not found, each new connection searches for them.
func TestAStrayIsSearchedForAMinute(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		f := l.Next(proxy.CreateOp, proxy.CutBefore)
		l.claim(t, 1)
		fired(t, f)
		for _, searches := range []int64{1, 1, 0, 0} {
			time.Sleep(29 * time.Second) // virtual
			before := l.Seen(proxy.ListOp)
			l.Cut()
			time.Sleep(time.Second) // virtual: it reconnects
			if n := l.Seen(proxy.ListOp) - before; n != searches {
				t.Errorf("%d searches after a reconnect, want %d", n, searches)
			}
		}
		again := make(chan bool)
		l.client.keepStray(&stray{session: l.sess, epoch: l.client.Epoch() - 1, again: func() { close(again) }})
		result(t, time.Second, "a search, because the connection has changed since the last", again)
	})
}

func TestRefreshWaitsForAnAnswer(t *testing.T) {
	withLine(t, 4*time.Second, func(t *testing.T, l *line) {
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
		l.v.Expire(t, l.conn)
		l.newSession(t)
		if err := l.client.Refresh(within(t, 10*time.Second), l.sess); !errors.Is(err, ErrOver) {
			t.Error(err)
		}
	})
}
