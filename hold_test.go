package zklocks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// Programs cannot reach the fields and methods of the embedded types.
func TestTheTypesShowOnlyTheirMethods(t *testing.T) {
	for _, tc := range []struct {
		value   any
		methods []string
	}{
		{&zklocks.Hold{}, []string{"Context", "Err", "Guard", "Held", "LogValue", "Lost", "Multi", "Release", "ReleaseRequested", "String", "Token", "ValidUntil", "Verify"}},
		{&zklocks.Conn{}, []string{"Client", "Close", "Heartbeat", "Path", "Rebalance", "RequestRelease", "SessionTimeout", "SetServers"}},
	} {
		typ := reflect.TypeOf(tc.value)
		var methods []string
		for m := range typ.NumMethod() {
			methods = append(methods, typ.Method(m).Name)
		}
		if !slices.Equal(methods, tc.methods) {
			t.Errorf("%v has the methods %q", typ, methods)
		}
		for _, f := range reflect.VisibleFields(typ.Elem()) {
			if f.IsExported() {
				t.Errorf("%v has the field %s", typ, f.Name)
			}
		}
	}
}

// The holder lacks READ on its own node, so the server withholds the event of its deletion. The
// holder detects the loss at its next recheck.
func TestALossWithoutAnEvent(t *testing.T) {
	for _, when := range []string{"at the first call", "after the first recheck", "before a reconnect"} {
		t.Run(when, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				hold, witness := take(d, d.lock.Lock), d.other.Client()
				node := contract.NodeOf(hold)
				if when != "at the first call" {
					hold.Lost()
					time.Sleep(10 * time.Second) // virtual: the node is watched
				}
				must(d, second(witness.SetACL(node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)))
				if when == "before a reconnect" {
					d.host.Cut()
				}
				lost := hold.Lost()
				time.Sleep(time.Second) // virtual: the watch was refused, or set again
				must(d, witness.Delete(node, -1))
				select {
				case <-lost:
				case <-time.After(10 * time.Second): // virtual: longer than until the next recheck
					d.Error("its node was deleted, and Lost is open")
				}
				if err := hold.Release(d.Context()); !errors.Is(err, zklocks.ErrLost) {
					d.Errorf("release: %v", err)
				}
			})
		})
	}
}

var open = zk.WorldACL(zk.PermAll)

// Multi refuses an operation whose result the client could not interpret, and a value that is not
// an operation, before it sends a request.
func TestMultiRefusesWhatItCouldNotJudge(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold := take(d, d.lock.Lock)
		for what, op := range map[string]any{
			"a container":  &zk.CreateRequest{Path: "/made", Flags: zk.FlagContainer, Acl: open},
			"a value":      zk.CreateRequest{Path: "/made", Acl: open},
			"nothing":      nil,
			"no create":    (*zk.CreateRequest)(nil),
			"no write":     (*zk.SetDataRequest)(nil),
			"no delete":    (*zk.DeleteRequest)(nil),
			"no check":     (*zk.CheckVersionRequest)(nil),
			"several":      []any{&zk.CreateRequest{Path: "/made", Acl: open}},
			"unknown flag": &zk.CreateRequest{Path: "/made", Flags: 64, Acl: open},
		} {
			before := d.host.Seen(zktest.Any)
			replies, err := hold.Multi(d.Context(), &zk.CreateRequest{Path: "/made", Acl: open}, op)
			if err == nil || len(replies) != 0 || !strings.Contains(err.Error(), "operation 1") {
				t.Errorf("%s: %+v, %v", what, replies, err)
			}
			if n := d.host.Seen(zktest.Any) - before; n != 0 {
				t.Errorf("%s: %d requests", what, n)
			}
		}
		release(d, hold)
	})
}

// A downgrade that continues without its caller, because no server can be reached, blocks no other
// caller. With the context of the hold Multi and Verify wait until the hold is lost, and say that.
func TestMultiAndVerifyDuringADowngrade(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold := take(d, d.lock.Lock)
		own := hold.Context(d.Context())
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(d.Context(), time.Second)
			d.Cleanup(cancel)
			return ctx
		}
		d.host.Partition()
		if err := d.lock.Downgrade(short(), hold); !errors.Is(err, context.DeadlineExceeded) {
			d.Errorf("downgrade: %v", err)
		}
		multi := func(ctx context.Context) error { return second(hold.Multi(ctx)) }
		for _, ask := range []func(context.Context) error{multi, hold.Verify} {
			began := time.Now()
			if err := ask(short()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
				d.Errorf("with another context: %v after %v", err, time.Since(began))
			}
		}
		verified := make(chan error)
		go func() { verified <- hold.Verify(own) }()
		for _, err := range []error{multi(own), <-verified, hold.Err()} {
			if !errors.Is(err, zklocks.ErrLost) {
				d.Errorf("with the context of the hold: %v", err)
			}
		}
		d.host.Heal()
		_ = hold.Release(d.Context())
	})
}

// Readers share a node, which remains when one of them releases. A transaction that this reader has
// not sent by then is not sent.
func TestMultiOfAHoldThatIsReleasedWhileItWaits(t *testing.T) {
	atDesk(t, func(d *desk) {
		a := take(d, d.lock.RLock)
		b := take(d, d.lock.RLock)
		d.host.Refuse()
		time.Sleep(100 * time.Millisecond) // virtual: the connection is lost
		result := make(chan error)
		go func() {
			_, err := a.Multi(d.Context(), &zk.CreateRequest{Path: "/made", Acl: open})
			result <- err
		}()
		synctest.Wait()
		release(d, a)
		d.host.Accept()
		if err := <-result; !errors.Is(err, zklocks.ErrReleased) {
			d.Errorf("multi: %v", err)
		}
		if made, _, err := d.other.Client().Exists("/made"); made || err != nil {
			d.Errorf("made: %v, %v", made, err)
		}
		release(d, b)
	})
}

// logged returns the text that package log/slog writes for a value, with "…" in place of each node,
// token, host and pid.
func logged(v any) string {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
	_, text, _ := strings.Cut(strings.TrimSpace(b.String()), "msg=x ")
	return regexp.MustCompile(`(node|token|host|pid)=\S+`).ReplaceAllString(text, "$1=…")
}

func TestHoldsAndMembersAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := zktest.NewServer(t).Host("a").Connect(t, 10*time.Second)
		rw, sem, re := rwlock.New(conn, "/rw"), semaphore.New(conn, "/sem", 5), reentrant.New(conn, "/re")
		for _, c := range []struct {
			lock         acquire
			text, logged string
		}{
			{rw.Lock, "write /rw", "v.path=/rw v.kind=write v.node=… v.token=…"},
			{rw.RLock, "read /rw", "v.path=/rw v.kind=read v.node=… v.token=…"},
			{sem.Locker(3).Lock, "3 permits /sem", "v.path=/sem v.kind=permits v.permits=3 v.node=… v.token=…"},
			{re.Lock, "mutex /re", "v.path=/re v.kind=mutex v.node=… v.token=…"},
			{zklocks.All(rw.RLocker(), re).Lock, "read /rw and /re", `v.path="/rw and /re" v.kind=read v.node=… v.token=…`},
		} {
			h := take(t, c.lock)
			if text, want := fmt.Sprint(h), fmt.Sprintf("%s, token %d", c.text, h.Token()); text != want {
				t.Errorf("%q, want %q", text, want)
			}
			if text := logged(h); text != c.logged {
				t.Errorf("logged as %s, want %s", text, c.logged)
			}
			release(t, h)
			if text := fmt.Sprint(h); !strings.HasPrefix(text, c.text) {
				t.Errorf("%q after its release", text)
			}
		}
		if text := fmt.Sprint(new(zklocks.Hold)) + logged((*zklocks.Hold)(nil)); text != `no lockv="no lock"` {
			t.Errorf("the zero and the nil Hold are shown as %q", text)
		}

		h := take(t, rw.Lock)
		queue, err := rw.Queue(t.Context())
		must(t, err)
		m := queue[0]
		if text := fmt.Sprint(m); !strings.Contains(text, "path="+m.Path) || !strings.Contains(text, "holding=true") || strings.Contains(text, fmt.Sprint(m.Data)) {
			t.Errorf("a member is shown as %s", text)
		}
		if text := logged(m); !strings.HasPrefix(text, "v.path="+m.Path+" v.kind=write v.permits=1 v.holding=true v.since=2000-01-01T") {
			t.Errorf("a member is logged as %s", text)
		}
		release(t, h)
	})
}

// An event is logged with its own fields in addition to the fields of its lock.
func TestEventsAreShown(t *testing.T) {
	lock := observe.LockInfo{Path: "/x", Kind: observe.KindWrite, Permits: 1}
	for _, c := range []struct {
		event fmt.Stringer
		want  string
	}{
		{observe.Called{LockInfo: lock}, "write /x"},
		{observe.Queued{LockInfo: lock, Ahead: 3}, "ahead=3"},
		{observe.Granted{LockInfo: lock, Waited: time.Second, Joined: true}, "waited=1s joined=true"},
		{observe.Failed{LockInfo: lock, Waited: time.Second, Cause: errors.New("why")}, "waited=1s cause=why"},
		{observe.Released{LockInfo: lock, Held: time.Second}, "held=1s"},
		{observe.Lost{LockInfo: lock, Held: time.Second, Cause: errors.New("why")}, "held=1s cause=why"},
	} {
		if text := c.event.String(); !strings.Contains(text, "/x") || !strings.Contains(text, c.want) {
			t.Errorf("%T is shown as %s, want %s", c.event, text, c.want)
		}
		if text := logged(c.event); !strings.Contains(text, "path=/x") {
			t.Errorf("%T is logged as %s", c.event, text)
		}
	}
}

// dropped receives what is logged of dropped holds.
type dropped chan string

func (d dropped) Printf(format string, args ...any) {
	if strings.Contains(format, "never released") {
		d <- fmt.Sprintf(format, args...)
	}
}

// A hold that the program drops is reported once, whatever the program has called and kept, and the
// lock remains held. A hold that was released or lost, or that Do and Run have, is not reported.
func TestAHoldThatIsNeverReleasedIsReported(t *testing.T) {
	leaked, lines := make(chan observe.Leaked, 100), make(dropped, 100)
	ctx := t.Context()
	conn := zktest.NewServer(t, zktest.WithHoldsLeft()).Host("a").Connect(t, 10*time.Second,
		zklocks.WithLogger(lines), zklocks.WithObserver(observe.Observer{Leaked: func(e observe.Leaked) { leaked <- e }}))
	recipes := map[string]func(path string) acquire{
		"/write":   func(path string) acquire { return rwlock.New(conn, path).Lock },
		"/read":    func(path string) acquire { return rwlock.New(conn, path).RLock },
		"/handoff": func(path string) acquire { return rwlock.New(conn, path, rwlock.WithHandoff(2)).Lock },
		"/permits": func(path string) acquire { return semaphore.New(conn, path, 3).Locker(2).Lock },
		"/mutex":   func(path string) acquire { return reentrant.New(conn, path).Lock },
		"/term":    func(path string) acquire { return leader.New(conn, path).Campaign },
		"/all": func(path string) acquire {
			return zklocks.All(rwlock.New(conn, path), rwlock.New(conn, path+"-too")).Lock
		},
	}
	var kept []any
	use := func(lock acquire) *zklocks.Hold {
		h := take(t, lock)
		work := h.Context(ctx)
		kept = append(kept, work, h.Lost(), h.ReleaseRequested(), context.AfterFunc(work, func() {}))
		if !h.Held() {
			t.Errorf("%v is not held", h)
		}
		return h
	}
	for path, lock := range recipes {
		func() { use(lock(path + "/dropped")) }()
		func() {
			release(t, use(lock(path+"/released")))
			h := use(lock(path + "/lost"))
			for _, check := range h.Guard() {
				// If the first node is deleted, the hold is lost and deletes its other nodes.
				if err := conn.Client().Delete(check.(*zk.CheckVersionRequest).Path, -1); err != zk.ErrNoNode {
					must(t, err)
				}
			}
			<-h.Lost()
		}()
	}
	ran := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	led := func(ctx context.Context, conn *zklocks.Conn, w work) error {
		return leader.New(conn, "/led").Run(ctx, w)
	}
	for _, call := range []func(context.Context, *zklocks.Conn, work) error{ends["Do"], led} {
		inside := make(chan struct{})
		go func() {
			ran <- call(running, conn, func(ctx context.Context, _ *zklocks.Hold) error {
				close(inside)
				<-ctx.Done()
				return nil
			})
		}()
		<-inside
	}

	want := len(recipes) + 1 // All has two locks
	test.Eventually(t, time.Minute, "the dropped holds are reported", func() bool {
		runtime.GC()
		return len(leaked) >= want && len(lines) >= want
	})
	for range 5 { // nothing else is reported
		runtime.GC()
		runtime.Gosched()
	}
	if len(leaked) != want || len(lines) != want {
		t.Errorf("%d events and %d lines, want %d", len(leaked), len(lines), want)
	}
	text := ""
	for range want {
		text += <-lines
		if e := <-leaked; !strings.Contains(e.Path, "/dropped") || e.Held <= 0 || e.Token == 0 {
			t.Errorf("reported: %v", e)
		}
	}
	for path := range recipes {
		if n := strings.Count(text, path+"/dropped, token"); n != 1 {
			t.Errorf("%d lines about the dropped hold of %s", n, path)
		}
	}
	if _, err := rwlock.New(conn, "/write/dropped").TryLock(ctx); !errors.Is(err, zklocks.ErrBusy) {
		t.Errorf("the lock of the dropped hold: %v", err)
	}
	stop()
	for range 2 {
		<-ran
	}
	runtime.KeepAlive(kept)
}

// keepsItsHold fails if a hold with the given session timeout is lost while far slows down the
// network, for at least a minute.
func keepsItsHold(t *testing.T, timeout time.Duration, far func(*zktest.Host)) {
	synctest.Test(t, func(t *testing.T) {
		host := zktest.NewServer(t).Host("host")
		hold := take(t, rwlock.New(host.Connect(t, timeout), "/far").Lock)
		began := time.Now()
		for time.Since(began) < time.Minute+10*timeout {
			far(host)
			if !hold.Held() {
				t.Fatalf("lost after %v: %v", time.Since(began), hold.Err())
			}
		}
		host.Heal()
		release(t, hold)
	})
}

func TestAFarServerCostsNoHold(t *testing.T) {
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		t.Run(timeout.String(), func(t *testing.T) {
			keepsItsHold(t, timeout, func(host *zktest.Host) {
				host.Delay(timeout / 8) // each way
				time.Sleep(timeout / 10)
			})
		})
	}
}

// The first lock of a session makes its directory, so several requests come before the grant.
func TestTheFirstLockOfASessionOnAFarServer(t *testing.T) {
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			host := zktest.NewServer(t).Host("host")
			host.Delay(timeout / 9) // each way
			hold := take(t, rwlock.New(host.Connect(t, timeout), "/far").Lock)
			time.Sleep(3 * timeout)
			if !hold.Held() {
				t.Errorf("T = %v: %v", timeout, hold.Err())
			}
			release(t, hold)
		})
	}
}

func TestAJitteryNetworkCostsNoHold(t *testing.T) {
	const timeout = 4 * time.Second
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		some := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
		keepsItsHold(t, timeout, func(host *zktest.Host) {
			host.Requests().Delay(some(timeout / 8))
			host.Replies().Delay(some(timeout / 8))
			time.Sleep(some(timeout / 16)) // virtual: until the delays change
		})
	}
}
