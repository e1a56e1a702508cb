package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
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

func TestACallEndsWithItsContext(t *testing.T) {
	withLine(t, 20*time.Second, func(t *testing.T, l *line) {
		cause := errors.New("the caller has other plans")
		for what, call := range map[string]func(context.Context) error{
			"get":   func(ctx context.Context) error { _, _, err := l.client.Get(ctx, l.dir); return err },
			"make":  func(ctx context.Context) error { return l.client.MakeDir(ctx, l.dir+"/x", open) },
			"claim": func(ctx context.Context) error { _, err := claimOne(ctx, l.client, l.sess, l.want(1)); return err },
			"watch": func(ctx context.Context) error { _, err := l.client.Watch(ctx, l.sess, l.dir); return err },
		} {
			hold := l.Next(proxy.AnyOp, proxy.HoldReply)
			ctx, cancel := context.WithCancelCause(context.Background())
			done := async(func() error { return call(ctx) })
			fired(t, hold)
			cancel(cause)
			err := result(t, 2*time.Second, what, done)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
				t.Errorf("%s: %v", what, err)
			}
			hold.Release()

			before := l.Seen(proxy.AnyOp)
			if err := call(ctx); !errors.Is(err, cause) {
				t.Errorf("%s with a context that has ended: %v", what, err)
			}
			if what != "claim" && l.Seen(proxy.AnyOp) != before { // a claim has something to clean up
				t.Errorf("%s with a context that has ended has sent something", what)
			}
		}
		test.Eventually(t, 10*time.Second, "only the directory that was made is left", func() bool {
			return len(l.children(t)) == 1
		})
	})
}

func TestReadsAreRepeatedUntilTheyAreAnswered(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		ctx := within(t, 20*time.Second)
		for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
			for _, c := range []struct {
				op   proxy.Op
				call func() error
			}{
				{proxy.ReadOp, func() error { _, _, err := l.client.Get(ctx, l.dir); return err }},
				{proxy.ListOp, func() error { _, _, err := l.client.Children(ctx, l.sess, l.dir); return err }},
				{proxy.CheckOp, func() error { return l.client.Barrier(ctx, l.sess) }},
				{proxy.SetOp, func() error { return l.client.Set(ctx, l.dir, []byte("x"), -1) }},
				{proxy.ReadOp, func() error { _, err := l.client.Watch(ctx, l.sess, l.dir); return err }},
			} {
				f := l.Next(c.op, action)
				if err := c.call(); err != nil {
					t.Errorf("%v, %v: %v", c.op, action, err)
				}
				fired(t, f)
			}
		}
		if l.conn.Session() != l.sess {
			t.Error("the session did not survive")
		}
	})
}

func TestAnswersOfAnotherSessionAreNotTaken(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		ctx := within(t, 10*time.Second)
		l.v.Expire(t, l.conn)
		l.newSession(t)
		_, _, err := l.client.Children(ctx, l.sess, l.dir)
		mustBe(t, err, ErrOver)
		mustBe(t, l.client.Barrier(ctx, l.sess), ErrOver)
		_, err = l.client.Watch(ctx, l.sess, l.dir)
		mustBe(t, err, ErrOver)
		_, err = claimOne(ctx, l.client, l.sess, l.want(1))
		mustBe(t, err, ErrOver)
		if _, _, err := l.client.Children(ctx, AnySession, l.dir); err != nil {
			t.Error(err)
		}
		test.AssertEmpty(t, l.witness.Client(), l.dir)
	})
}

// On a closed connection each call returns at once, as on a lost connection. Calls that retry must
// not retry then.
func TestAClosedConnectionEndsEveryCall(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		nodes := l.claim(t, 1)
		hold := l.Next(proxy.CreateOp, proxy.HoldReply)
		ctx := within(t, 20*time.Second)
		waiting := l.claiming(ctx, 1)
		fired(t, hold)
		l.conn.Close()
		hold.Release()
		mustBe(t, result(t, 3*time.Second, "claim under way", waiting), ErrClosed)
		_, err := l.client.Session(ctx)
		mustBe(t, err, ErrClosed)
		for what, call := range map[string]func() error{
			"claim":    func() error { _, err := claimOne(ctx, l.client, l.sess, l.want(1)); return err },
			"remove":   func() error { return <-l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: nodes}) },
			"watch":    func() error { _, err := l.client.Watch(ctx, l.sess, l.path(nodes[0])); return err },
			"get":      func() error { _, _, err := l.client.Get(ctx, l.dir); return err },
			"session":  func() error { _, err := l.client.Session(ctx); return err },
			"make dir": func() error { return l.client.MakeDir(ctx, l.dir+"/x", open) },
			"replace": func() error {
				return l.client.Replace(l.sess, l.dir, nodes[0], nodes[0].As("read-"), nil, open)
			},
		} {
			err := result(t, 2*time.Second, what, async(call))
			if !errors.Is(err, ErrClosed) || !errors.Is(err, zk.ErrClosing) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// No request of a canceled call is sent after the outage.
func TestAnOutageLeavesNoQueueOfRequests(t *testing.T) {
	withLine(t, 20*time.Second, func(t *testing.T, l *line) {
		l.Refuse()
		test.Eventually(t, 10*time.Second, "the connection is down", func() bool { return l.conn.State() != zk.StateHasSession })
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				if _, _, err := l.client.Children(ctx, l.sess, l.dir); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("during the outage: %v", err)
				}
			})
		}
		all.Wait()
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
