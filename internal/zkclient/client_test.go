package zkclient

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
)

// use leaves no reference on the stack of its caller.
func use(t *testing.T, conn *wire.Conn) weak.Pointer[Client] {
	c := Of(conn)
	lease := c.Keep(conn.Session())
	defer lease.End()
	if _, err := c.Watch(context.Background(), conn.Session(), "/"); err != nil {
		t.Error(err)
	}
	return weak.Make(c)
}

// In real time: the garbage collector runs outside of a bubble.
func TestNothingKeepsAConnection(t *testing.T) {
	t.Parallel()
	servers := []string{loopback.For(t).Addr()}
	key, used := func() (weak.Pointer[wire.Conn], weak.Pointer[Client]) {
		conn, err := wire.Connect(within(t, 10*time.Second), servers, 10*time.Second)
		must(t, err)
		defer conn.Close()
		return weak.Make(conn), use(t, conn)
	}()
	test.Eventually(t, 15*time.Second, "connection and client are collected", func() bool {
		runtime.GC()
		return key.Value() == nil && used.Value() == nil
	})
}

func TestSessionWaitsForOne(t *testing.T) {
	withLine(t, 20*time.Second, func(t *testing.T, l *line) {
		id, err := l.client.Session(within(t, 10*time.Second))
		if err != nil || id != l.sess {
			t.Fatalf("%#x, %v", id, err)
		}
		l.Refuse()
		l.v.Expire(t, l.conn)
		test.Eventually(t, 10*time.Second, "the connection is down", func() bool { return l.conn.State() != zk.StateHasSession })
		if other := Of(l.conn).Traced(nil); !other.Same(l.client) || other.Up(l.sess) || !other.In(l.sess) {
			t.Errorf("the same: %v, up: %v, in its session: %v", other.Same(l.client), other.Up(l.sess), other.In(l.sess))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, err := l.client.Session(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a session: %v", err)
		}
		must(t, l.Accept())
		test.Eventually(t, 10*time.Second, "another session", func() bool {
			id, err = l.client.Session(within(t, 10*time.Second))
			return err != nil || id != l.sess
		})
		if err != nil || id == 0 {
			t.Errorf("%#x, %v", id, err)
		}
	})
}

func TestCatchUpFollowsTheSession(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		held := l.Next(proxy.CheckOp, proxy.HoldRequest)
		var session int64
		done := async(func() (err error) { session, err = l.client.CatchUp(within(t, 20*time.Second)); return err })
		fired(t, held)
		l.v.Expire(t, l.conn)
		must(t, result(t, 20*time.Second, "catching up", done))
		if now := l.newSession(t); session != now {
			t.Errorf("caught up in session %#x, and in %#x", session, now)
		}
	})
}

func TestEndedKeepsTheCause(t *testing.T) {
	cause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := Ended(ctx); err != nil {
		t.Error(err)
	}
	cancel(cause)
	if err := Ended(ctx); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ofAHold, lose := context.WithCancelCause(context.Background())
	lose(hold.ErrLost)
	if err := Ended(ofAHold); errors.Is(err, hold.ErrLost) || !strings.Contains(err.Error(), hold.ErrLost.Error()) {
		t.Errorf("%v matches the loss of a hold", err)
	}
	late, stop := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer stop()
	if err := Ended(late); err != context.DeadlineExceeded {
		t.Error(err)
	}
}
