package zkclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// keep begins a lease and returns a channel that yields the reason for its loss.
func (l *line) keep(t *testing.T) (*Lease, <-chan error) {
	t.Helper()
	lost := make(chan error, 1)
	lease := l.client.Keep(l.sess)
	lease.OnLoss(nil, func(why error) {
		_ = l.client.Holders() // it may call any method
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
		two.OnLoss("two", func(error) {})
		if held, due := l.client.Holders(), one.Heartbeats(4*l.conn.BeatPeriod()); len(held) != 1 || due != 2 {
			t.Errorf("holders %v, %v of four heartbeats are due to one of two leases", held, due)
		}
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
				earlier, _ := l.keep(t)
				earlier.End() // stops the timer
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
		l.Unmute() // cuts the connection
		must(t, l.client.Refresh(within(t, 10*time.Second), l.sess))
		must(t, lease.Alive())
	})
}

func TestTheEndOfTheSessionIsALoss(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		lease, lost := l.keep(t)
		over := lease.Over()
		_, ended := l.keep(t)
		other := l.client.Keep(l.sess)
		told := make(chan error, 1)
		other.OnLoss(nil, func(why error) { told <- why })
		other.End()
		l.v.Expire(t, l.conn)
		mustBe(t, result(t, 10*time.Second, "loss", lost), errExpired)
		mustBe(t, result(t, 10*time.Second, "loss of the other", ended), errExpired)
		mustBe(t, context.Cause(over), errExpired)
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

// Finish waits for a call until ctx is canceled or the session must be considered lost, whichever
// goroutine detects that.
func TestFinish(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(l *line, lease *Lease, cancel func())
		want      []error
		says      string // at the end
	}{
		"canceled": {func(_ *line, _ *Lease, cancel func()) { cancel() }, []error{context.Canceled}, "context canceled (it goes on in the background)"},
		"canceled, and no server answers": {func(l *line, _ *Lease, cancel func()) { l.Mute(); time.Sleep(time.Second); cancel() }, // virtual
			[]error{context.Canceled, wire.ErrNoAnswer}, "has been silent for 1s (it goes on in the background)"},
		"at the deadline":                    {func(l *line, _ *Lease, _ func()) { l.Mute() }, []error{hold.ErrLost, errUnheard}, "(not confirmed: it goes on in the background)"},
		"another call has detected the loss": {func(_ *line, lease *Lease, _ func()) { lease.Lost(fmt.Errorf("%w: why", hold.ErrLost)) }, []error{hold.ErrLost}, hold.ErrLost.Error() + ": why"},
	} {
		t.Run(name, func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				lease := l.client.Keep(l.sess)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if err := lease.Finish(ctx, "it goes on", func() error { return zk.ErrNoNode }); err != zk.ErrNoNode {
					t.Errorf("of a call that returns: %v", err)
				}
				call := make(chan error)
				defer close(call)
				other := l.client.Keep(l.sess)
				other.Lost(hold.ErrLost)
				mustBe(t, result(t, time.Second, "a later call", async(func() error { return other.Finish(ctx, "", func() error { return <-call }) })), hold.ErrLost)
				finished := async(func() error { return lease.Finish(ctx, "it goes on", func() error { return <-call }) })
				synctest.Wait()
				c.meanwhile(l, lease, cancel)
				deadline := lease.Deadline()
				err := result(t, 20*time.Second, "the call", finished)
				if late := time.Since(deadline); errors.Is(err, errUnheard) && late != 0 {
					t.Errorf("%v after the deadline", late)
				}
				for _, want := range c.want {
					mustBe(t, err, want)
				}
				if !strings.HasSuffix(err.Error(), c.says) || strings.Count(err.Error(), hold.ErrLost.Error()) > 1 {
					t.Errorf("it says %q", err)
				}
				if name != "another call has detected the loss" {
					lease.End()
				}
				if kept := l.client.Kept(); len(kept) > 0 {
					t.Errorf("kept: %q", kept)
				}
				l.Unmute()
			})
		})
	}
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
		l.client.keepStray(&stray{epoch: l.client.Epoch() - 1, again: func() { close(again) }})
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
	})
}

// unanswered returns a client with a session, whose server no longer answers.
func unanswered(t *testing.T, v venue.Venue, timeout time.Duration) (c *Client, session int64) {
	p := v.Proxy(t, v.Servers(t)[0])
	conn := v.Connect(t, timeout, p.Addr())
	p.Mute()
	return Of(conn), conn.Session()
}

// A hold must end at its deadline, even if the monitor has set its timer shortly before.
func TestLossIsToldAtTheDeadline(t *testing.T) {
	const timeout = 10 * time.Second
	for _, before := range []time.Duration{1, time.Millisecond, 5 * time.Millisecond, timeout / 256, timeout / 8, timeout} {
		t.Run(before.String(), func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				c, session := unanswered(t, v, timeout)
				deadline := c.conn.Deadline(session)
				time.Sleep(time.Until(deadline) - before)
				lease := c.Keep(session) // sets the timer
				defer lease.End()
				lost := make(chan time.Time, 1)
				lease.OnLoss(nil, func(error) { lost <- time.Now() })
				if late := (<-lost).Sub(deadline); late != 0 {
					t.Errorf("reported %v after the deadline", late)
				}
			})
		})
	}
}

// After the deadline has passed, the monitor pauses between two checks. Without a pause it would
// check in a busy loop, and no time would pass in this bubble.
func TestThePassedDeadlineIsNotLookedAtAllTheTime(t *testing.T) {
	const timeout = 10 * time.Second
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		c, session := unanswered(t, v, timeout)
		lease := c.Keep(session)
		defer lease.End()
		told := 0
		lease.OnLoss(nil, func(error) { told++ })
		time.Sleep(3 * timeout)
		synctest.Wait()
		if told != 1 {
			t.Errorf("the loss was reported %d times", told)
		}
		lease.OnLoss(nil, func(error) { told++ })
		time.Sleep(timeout / 32) // the monitor still checks: it also reports the loss to a later lease
		synctest.Wait()
		if told != 2 {
			t.Errorf("the second loss was reported %d times", told-1)
		}
	})
}
