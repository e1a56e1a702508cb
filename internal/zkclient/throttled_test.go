package zkclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// throttled is the answer of an overloaded server. The server does not forward the request to the
// leader, and no server executes it.
var throttled = proxy.Answer(-127)

func TestWhatIsThrottledIsAskedAgain(t *testing.T) {
	for what, c := range map[string]struct {
		op   proxy.Op
		call func(*testing.T, context.Context, *line, znode.Node) error
	}{
		"claim": {proxy.CreateOp, func(_ *testing.T, ctx context.Context, l *line, _ znode.Node) error {
			_, err := claimOne(ctx, l.client, l.sess, l.want(1))
			return err
		}},
		"claim by a plain create": {proxy.CreateOp, func(_ *testing.T, ctx context.Context, l *line, _ znode.Node) error {
			claim := l.want(1)
			claim.Touch = false
			_, err := claimOne(ctx, l.client, l.sess, claim)
			return err
		}},
		"remove": {proxy.DeleteOp, func(_ *testing.T, _ context.Context, l *line, n znode.Node) error {
			return <-l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{n}})
		}},
		"remove with a marker": {proxy.DeleteOp, func(t *testing.T, _ context.Context, l *line, n znode.Node) error {
			w := l.watchMarker(t, n)
			err := l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{n}, Marker: "-marker", ACL: open})
			if e := event(t, w); !Released(e) {
				t.Errorf("without its marker: %+v", e)
			}
			return err
		}},
		"replace": {proxy.MoveOp, func(_ *testing.T, _ context.Context, l *line, n znode.Node) error {
			return l.client.Replace(l.sess, l.dir, n, n.As("read-"), nil, open)
		}},
		"list": {proxy.ListOp, func(_ *testing.T, ctx context.Context, l *line, _ znode.Node) error {
			_, _, err := l.client.Children(ctx, l.sess, l.dir)
			return err
		}},
		"watch many": {proxy.ReadOp, func(_ *testing.T, ctx context.Context, l *line, n znode.Node) error {
			_, err := l.client.WatchNodes(ctx, l.sess, "", []string{l.path(n), l.dir})
			return err
		}},
	} {
		t.Run(what, func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				n := l.claim(t, 1)[0]
				before := l.Seen(c.op)
				twice := []*proxy.Fault{l.Next(c.op, throttled), l.Next(c.op, throttled)}
				must(t, c.call(t, within(t, 20*time.Second), l, n))
				fired(t, twice...)
				if l.Seen(c.op) == before {
					t.Error("no server has heard of it")
				}
			})
		})
	}
}

// A throttled barrier brings no server up to date: a listing after it may not show the create.
func TestAThrottledBarrierIsNone(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		cut := l.Next(proxy.CreateOp, proxy.CutAfterCommit)
		barrier := l.Next(proxy.CheckOp, throttled)
		listing := l.Next(proxy.ListOp, proxy.HoldRequest)
		claimed := l.claiming(within(t, 20*time.Second), 1)
		fired(t, cut, barrier, listing)
		if n := l.Seen(proxy.CheckOp); n != 1 {
			t.Errorf("%d barriers before the listing, want 1", n)
		}
		listing.Release()
		must(t, result(t, 20*time.Second, "claim", claimed))
		if n := len(l.children(t)); n != 1 {
			t.Errorf("%d nodes", n)
		}
	})
}

// Throttled heartbeats do not extend the deadline: the leader has not received them.
func TestThrottledHeartbeatsProveNothing(t *testing.T) {
	withLine(t, 2*time.Second, func(t *testing.T, l *line) {
		lease, lost := l.keep(t)
		deadline := lease.Deadline()
		if deadline.IsZero() {
			t.Fatal("no deadline")
		}
		for range 1000 { // at most one in 100 ms
			l.Next(proxy.CheckOp, throttled)
		}
		mustBe(t, result(t, 10*time.Second, "loss", lost), errUnheard)
		if late := time.Since(deadline); late != 0 {
			t.Errorf("lost %v after the deadline", late)
		}
		if n := l.Seen(proxy.CheckOp); n != 0 {
			t.Errorf("%d heartbeats have reached the server", n)
		}
	})
}

// If a follower keeps sessions local and does not upgrade them, the leader refuses to create an
// ephemeral node, with the code of an expired session.
func TestASessionThatMayOwnNoNode(t *testing.T) {
	t.Parallel()
	for _, touch := range []bool{true, false} {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			l := newLine(t, v, 10*time.Second)
			for range 100 {
				l.Next(proxy.CreateOp, proxy.Answer(-112))
			}
			claim := l.want(1)
			claim.Touch = touch
			began := time.Now()
			_, err := claimOne(t.Context(), l.client, l.sess, claim)
			if err == nil || !strings.Contains(err.Error(), "localSessionsUpgradingEnabled") || time.Since(began) > time.Second {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
		})
	}
}

// If a call is canceled while its server throttles it, or refuses it for another reason, the error
// says so.
func TestTheErrorNamesTheAnswer(t *testing.T) {
	t.Parallel()
	for code, says := range map[int32]string{-127: "is overloaded", -4: "-4", -12: "-12"} {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			l := newLine(t, v, 10*time.Second)
			for range 1000 {
				l.Next(proxy.ListOp, proxy.Answer(code))
			}
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			_, _, err := l.client.Children(ctx, l.sess, l.dir)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
				t.Errorf("%d: %v", code, err)
			}
		})
	}
}
