package zkclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{nil, done},

		{wire.ErrUnsent, unsent},
		{ErrOver, unsent},
		{zk.ErrSessionExpired, unsent},
		{zk.ErrSessionMoved, unsent},
		{wire.Code(-12), unsent}, // unknown session: it has just ended
		{wire.Throttled, unsent}, // throttled

		{zk.ErrNoNode, refused},
		{zk.ErrNoAuth, refused},
		{zk.ErrBadVersion, refused},
		{zk.ErrNoChildrenForEphemerals, refused},
		{zk.ErrNodeExists, refused},
		{zk.ErrNotEmpty, refused},
		{zk.ErrInvalidACL, refused},
		{zk.ErrAuthFailed, refused},
		{zk.ErrBadArguments, refused},
		{zk.ErrAPIError, refused},
		{fmt.Errorf("wrapped: %w", zk.ErrNoNode), refused},
		{wire.Code(-6), refused},   // unimplemented
		{wire.Code(-119), refused}, // not read-only
		{wire.Code(-122), refused}, // no watcher
		{fmt.Errorf("demands credentials: %w", zk.ErrAuthFailed), refused},
		{wire.Code(-125), refused}, // quota exceeded

		{zk.ErrConnectionClosed, unknown},
		{zk.ErrClosing, unknown},
		{wire.ErrNoAnswer, unknown},
		{fmt.Errorf("%w: %w: the last attempt: %w", context.Canceled, wire.ErrNoAnswer, zk.ErrAuthFailed), unknown},
		{wire.Code(-1), unknown}, // system error
		{wire.Code(-2), unknown}, // runtime inconsistency
		{wire.Code(-3), unknown}, // data inconsistency
		{wire.Code(-4), unknown}, // connection loss
		{wire.Code(-7), unknown}, // operation timeout
		{errors.New("anything else"), unknown},
	} {
		if got := outcomeOf(c.err); got != c.want {
			t.Errorf("%v: got outcome %d, want %d", c.err, got, c.want)
		}
	}
}

// A call is a method of the Client that makes requests.
type call struct {
	op         proxy.Op // of its first request
	ctx        bool     // it takes a context
	ofASession bool     // it takes a session
	do         func(ctx context.Context, l *line, session int64, n znode.Node) error
}

var calls = map[string]call{
	"get": {proxy.ReadOp, true, false, func(ctx context.Context, l *line, _ int64, n znode.Node) error {
		_, _, err := l.client.Get(ctx, l.path(n))
		return err
	}},
	"set": {proxy.SetOp, true, false, func(ctx context.Context, l *line, _ int64, n znode.Node) error {
		return l.client.Set(ctx, l.path(n), []byte("x"), -1)
	}},
	"make a directory": {proxy.MkdirOp, true, false, func(ctx context.Context, l *line, _ int64, n znode.Node) error {
		return l.client.MakeDir(ctx, l.dir+"/x", open)
	}},
	"list": {proxy.ListOp, true, true, func(ctx context.Context, l *line, session int64, _ znode.Node) error {
		_, _, err := l.client.Children(ctx, session, l.dir)
		return err
	}},
	"stat": {proxy.ExistsOp, true, true, func(ctx context.Context, l *line, session int64, n znode.Node) error {
		_, err := l.client.Stat(ctx, session, l.path(n))
		return err
	}},
	"barrier": {proxy.CheckOp, true, true, func(ctx context.Context, l *line, session int64, _ znode.Node) error {
		return l.client.Barrier(ctx, session)
	}},
	"watch": {proxy.ReadOp, true, true, func(ctx context.Context, l *line, session int64, n znode.Node) error {
		_, err := l.client.Watch(ctx, session, l.path(n))
		return err
	}},
	"watch a node": {proxy.ReadOp, true, true, func(ctx context.Context, l *line, session int64, n znode.Node) error {
		_, err := l.client.WatchNode(ctx, session, l.path(n))
		return err
	}},
	"watch many": {proxy.ReadOp, true, true, func(ctx context.Context, l *line, session int64, n znode.Node) error {
		_, err := l.client.WatchNodes(ctx, session, "", []string{l.path(n), l.path(n) + "-none"})
		return err
	}},
	"watch children": {proxy.ListOp, true, true, func(ctx context.Context, l *line, session int64, n znode.Node) error {
		_, err := l.client.WatchChildren(ctx, session, l.path(n))
		return err
	}},
	"claim": {proxy.CreateOp, true, true, func(ctx context.Context, l *line, session int64, _ znode.Node) error {
		_, err := claimOne(ctx, l.client, session, l.want(2))
		return err
	}},
	"claim by a plain create": {proxy.CreateOp, true, true, func(ctx context.Context, l *line, session int64, _ znode.Node) error {
		_, err := claimOne(ctx, l.client, session, Claim{Dir: l.dir, Kind: znode.Lock, Nodes: 1, ACL: open})
		return err
	}},
	"remove": {proxy.DeleteOp, false, true, func(_ context.Context, l *line, session int64, n znode.Node) error {
		return <-l.client.Remove(session, Removal{Dir: l.dir, Nodes: []znode.Node{n}})
	}},
	"replace": {proxy.MoveOp, false, true, func(_ context.Context, l *line, session int64, n znode.Node) error {
		return l.client.Replace(session, l.dir, n, n.As(znode.Read), nil, open)
	}},
}

// each tests each call that fits, with a node of the session.
func each(t *testing.T, fits func(call) bool, test func(t *testing.T, l *line, n znode.Node, name string, c call)) {
	for name, c := range calls {
		if fits(c) {
			t.Run(name, func(t *testing.T) {
				withLine(t, 10*time.Second, func(t *testing.T, l *line) { test(t, l, l.claim(t, 1)[0], name, c) })
			})
		}
	}
}

func all(call) bool { return true }

// An overloaded server drops requests. It does not forward them to the leader.
func TestCallsAreRepeatedUntilTheyAreAnswered(t *testing.T) {
	each(t, all, func(t *testing.T, l *line, n znode.Node, _ string, c call) {
		var retried []error
		l.client = l.client.Traced(func(_ string, cause error) { retried = append(retried, cause) })
		for _, action := range []proxy.Action{throttled, proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
			retried = nil
			twice := []*proxy.Fault{l.Next(c.op, action), l.Next(c.op, throttled)}
			if err := c.do(within(t, 20*time.Second), l, l.sess, n); err != nil {
				t.Errorf("%v: %v", action, err)
			}
			<-twice[0].Fired()
			twice[1].Cancel()
			if action == throttled && !slices.Equal(retried, []error{wire.Throttled, wire.Throttled}) {
				t.Errorf("sent again because of %q", retried)
			}
			n = l.claim(t, 1)[0]
		}
		if l.conn.Session() != l.sess {
			t.Error("the session did not survive")
		}
	})
}

func TestACallEndsWithItsContext(t *testing.T) {
	cause := errors.New("the caller has other plans")
	each(t, func(c call) bool { return c.ctx }, func(t *testing.T, l *line, n znode.Node, name string, c call) {
		hold := l.Next(c.op, proxy.HoldReply)
		ctx, cancel := context.WithCancelCause(context.Background())
		done := async(func() error { return c.do(ctx, l, l.sess, n) })
		fired(t, hold)
		cancel(cause)
		if err := result(t, 2*time.Second, "the call", done); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || errors.Is(err, wire.ErrNoAnswer) {
			t.Error(err)
		}
		hold.Release()
		want := 1
		if name == "make a directory" {
			want = 2
		}
		test.Eventually(t, 10*time.Second, "nothing is left of a claim", func() bool { return len(l.children(t)) == want })
		before := l.Seen(proxy.AnyOp)
		if err := c.do(ctx, l, l.sess, n); !errors.Is(err, cause) || l.Seen(proxy.AnyOp) != before {
			t.Errorf("with a context that has ended: %v, after %d requests", err, l.Seen(proxy.AnyOp)-before)
		}
	})
}

// The end of the session means nothing for a node, and no answer of another session is taken.
func TestAnswersOfAnotherSessionAreNotTaken(t *testing.T) {
	each(t, func(c call) bool { return c.ofASession }, func(t *testing.T, l *line, n znode.Node, _ string, c call) {
		before := l.watch(t, l.dir)
		l.v.Expire(t, l.conn)
		if e := event(t, before); e.Type != zk.EventNotWatching || Gone(e) {
			t.Errorf("got %+v", e)
		}
		l.newSession(t)
		ctx := within(t, 10*time.Second)
		if err := c.do(ctx, l, l.sess, n); err != ErrOver {
			t.Error(err)
		}
		if after, err := l.client.Watch(ctx, AnySession, l.dir); err != nil || after == before {
			t.Errorf("a watch of the last session serves the next, or %v", err)
		}
		l.empty(t)
	})
}

// On a closed connection each call returns at once, as on a lost connection. Calls that retry must
// not retry then.
func TestAClosedConnectionEndsEveryCall(t *testing.T) {
	each(t, all, func(t *testing.T, l *line, n znode.Node, _ string, c call) {
		ctx := within(t, 20*time.Second)
		hold := l.Next(c.op, proxy.HoldReply)
		underWay := async(func() error { return c.do(ctx, l, l.sess, n) })
		fired(t, hold)
		l.conn.Close()
		hold.Release()
		_, ended := l.client.Session(ctx)
		for when, err := range map[string]error{
			"under way":    result(t, 3*time.Second, "the call under way", underWay),
			"afterwards":   result(t, 2*time.Second, "the call", async(func() error { return c.do(ctx, l, l.sess, n) })),
			"of a session": ended,
		} {
			if !errors.Is(err, ErrClosed) || !errors.Is(err, zk.ErrClosing) {
				t.Errorf("%s: %v", when, err)
			}
		}
	})
}

// No request of a canceled call is sent after the outage.
func TestAnOutageLeavesNoQueueOfRequests(t *testing.T) {
	withLine(t, 20*time.Second, func(t *testing.T, l *line) {
		l.Refuse()
		test.Eventually(t, 10*time.Second, "the connection is down", func() bool { return l.conn.State() != zk.StateHasSession })
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				if _, _, err := l.client.Children(ctx, l.sess, l.dir); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("during the outage: %v", err)
				}
			})
		}
		calls.Wait()
		before := l.Seen(proxy.ListOp)
		must(t, l.Accept())
		if _, _, err := l.client.Children(within(t, 20*time.Second), l.sess, l.dir); err != nil {
			t.Error(err)
		}
		if n := l.Seen(proxy.ListOp) - before; n != 1 {
			t.Errorf("%d listings, one was asked for", n)
		}
	})
}

// unreached returns the error of a call that waits until its ctx is canceled.
func unreached(t *testing.T, c *Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, _, err := c.Get(ctx, "/")
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the error of ctx", err)
	}
	return err
}

// The servers refuse credentials that they have accepted before. The zk client considers each
// connection up.
func TestTheErrorTellsThatCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		opts := append(v.Dialer(), wire.WithDigestAuth("ann", "secret"))
		conn, err := wire.Connect(t.Context(), []string{p.Addr()}, 10*time.Second, opts...)
		must(t, err)
		defer conn.Close()
		c := Of(conn)
		if silent := c.Silence(); silent != 0 {
			t.Errorf("silent for %v", silent)
		}
		var refused []*proxy.Fault
		for range 1000 {
			refused = append(refused, p.Next(proxy.AuthOp, proxy.Answer(-115)))
		}
		p.Cut()
		if err := unreached(t, c); !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), p.Addr()) {
			t.Errorf("error %v, want %v of %s", err, zk.ErrAuthFailed, p.Addr())
		}
		for _, f := range refused {
			f.Cancel()
		}
		_, _, err = c.Get(within(t, 20*time.Second), "/")
		must(t, err)
		ended, end := context.WithCancel(t.Context())
		end()
		if err := c.ExplainSilence(ended, context.Canceled); errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("error %v, and they are accepted", err)
		}
		p.Mute() // no server refuses any more
		if err := unreached(t, c); errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("error %v, after an answer", err)
		}
	})
}

// After the first connection all attempts fail, as if a certificate has expired.
func TestTheErrorTellsWhyThereIsNoConnection(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		why := fmt.Errorf("x509: certificate has expired: %w", context.Canceled) // must not match
		var expired atomic.Bool
		conn, err := wire.Connect(t.Context(), []string{p.Addr()}, 10*time.Second, wire.WithDialer(
			func(ctx context.Context, network, address string) (net.Conn, error) {
				if expired.Load() {
					return nil, why
				}
				return v.Dial(ctx, network, address)
			}))
		must(t, err)
		defer conn.Close()
		expired.Store(true)
		p.Cut()
		test.Eventually(t, 10*time.Second, "the connection is lost", func() bool { return conn.State() != zk.StateHasSession })
		time.Sleep(10 * time.Second) // virtual
		if err := unreached(t, Of(conn)); !strings.Contains(err.Error(), "no connection for 15") || !strings.Contains(err.Error(), "; tried: "+p.Addr()+"; last attempt: "+why.Error()) {
			t.Errorf("error %v, want why the last attempt failed", err)
		}
	})
}

// throttled is the answer of an overloaded server. The server does not forward the request to the
// leader, and no server executes it.
var throttled = proxy.Answer(-127)

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

// Throttled heartbeats do not extend the deadline: the leader has not received them. The connection
// remains, so only the timer detects the loss, also if it was set again before.
func TestThrottledHeartbeatsProveNothing(t *testing.T) {
	for _, begins := range []func(*testing.T, *line) (*Lease, <-chan error){
		func(t *testing.T, l *line) (*Lease, <-chan error) {
			defer time.Sleep(10 * time.Second) // virtual
			return l.keep(t)
		},
		func(t *testing.T, l *line) (*Lease, <-chan error) {
			lease := l.client.Keep(l.sess)
			t.Cleanup(lease.End)
			over := lease.Over()
			return lease, async(func() error { <-over.Done(); return context.Cause(over) })
		},
	} {
		t.Run("", func(t *testing.T) {
			withLine(t, 2*time.Second, func(t *testing.T, l *line) {
				lease, lost := begins(t, l)
				deadline, before := lease.Deadline(), l.Seen(proxy.CheckOp)
				for range 1000 { // at most one in 100 ms
					l.Next(proxy.CheckOp, throttled)
				}
				mustBe(t, result(t, 10*time.Second, "loss", lost), errUnheard)
				if late := time.Since(deadline); deadline.IsZero() || late != 0 {
					t.Errorf("lost %v after the deadline", late)
				}
				if n := l.Seen(proxy.CheckOp) - before; n != 0 {
					t.Errorf("%d heartbeats have reached the server", n)
				}
			})
		})
	}
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
			for _, err := range []error{err, l.client.ExplainSilence(ctx, ctx.Err())} {
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, wire.ErrNoAnswer) || !strings.Contains(err.Error(), says) {
					t.Errorf("%d: %v", code, err)
				}
				if code != -127 {
					break // only an overload is remembered
				}
			}
		})
	}
}
