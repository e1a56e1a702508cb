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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

func TestTheZeroHoldIsLost(t *testing.T) {
	var hold zklocks.Hold
	ctx := t.Context()
	_, multi := hold.Multi(ctx, &zk.CheckVersionRequest{Path: "/", Version: -1})
	for what, err := range map[string]error{
		"Err": hold.Err(), "Release": hold.Release(ctx), "Verify": hold.Verify(ctx), "Multi": multi, "Context": context.Cause(hold.Context(ctx)),
	} {
		if !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	select {
	case <-hold.Lost():
	default:
		t.Error("Lost is open")
	}
	select {
	case <-hold.ReleaseRequested():
		t.Error("asked to release")
	default:
	}
	if hold.Held() || hold.Token() != 0 || !hold.ValidUntil().IsZero() || len(hold.Guard("op")) != 2 {
		t.Errorf("held %v, token %d, deadline %v, guard %v", hold.Held(), hold.Token(), hold.ValidUntil(), hold.Guard("op"))
	}
}

// Programs cannot reach the fields and methods of the embedded types.
func TestTheTypesShowOnlyTheirMethods(t *testing.T) {
	for _, tc := range []struct {
		value   any
		methods []string
	}{
		{&zklocks.Hold{}, []string{"Context", "Err", "Guard", "Held", "LogValue", "Lost", "Multi", "Release", "ReleaseRequested", "String", "Token", "ValidUntil", "Verify"}},
		{&zklocks.Conn{}, []string{"Client", "Close", "Heartbeat", "Path", "RequestRelease", "SessionTimeout"}},
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

// A program waits for the answer with defer hold.Release(context.WithoutCancel(ctx)), where ctx is
// the context of the hold, even if its work was canceled.
func TestReleaseWithADetachedContextWaitsForTheAnswer(t *testing.T) {
	atDesk(t, func(d *desk) {
		parent, cancel := context.WithCancel(d.Context())
		hold, err := d.lock.Lock(parent)
		if err != nil {
			d.Fatal(err)
		}
		ctx := hold.Context(parent)
		cancel()
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer stop()
		if err := hold.Release(bounded); err != nil {
			d.Errorf("a context that lives for 3 s more: %v", err)
		}
	})
}

// If a context is detached from the hold's context, Release waits for that context alone. Canceling
// the parent during the wait does not end it.
func TestADetachedContextOutlivesTheParentDuringRelease(t *testing.T) {
	for name, open := range map[string]func(*zklocks.Conn) zklocks.Locker{
		"rwlock":    func(c *zklocks.Conn) zklocks.Locker { return rwlock.New(c, path) },
		"reentrant": func(c *zklocks.Conn) zklocks.Locker { return reentrant.New(c, path) },
		"semaphore": func(c *zklocks.Conn) zklocks.Locker { return semaphore.New(c, path, 1).Locker(1) },
		"All": func(c *zklocks.Conn) zklocks.Locker {
			return zklocks.All(rwlock.New(c, path), semaphore.New(c, path+"-permits", 1).Locker(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				host := s.Host("a")
				hold, err := open(host.Connect(t, 10*time.Second)).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				parent, cancel := context.WithCancel(t.Context())
				defer cancel()
				ctx, stop := context.WithTimeout(context.WithoutCancel(hold.Context(parent)), 3*time.Second)
				defer stop()
				answer := host.Next(zktest.Delete, zktest.HoldReply)
				released := make(chan error, 1)
				go func() { released <- hold.Release(ctx) }()
				<-answer.Fired()
				cancel()
				synctest.Wait()
				select {
				case err := <-released:
					t.Fatalf("the parent has ended, and with it the wait: %v", err)
				default:
				}
				answer.Release()
				if err := <-released; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestTheGuardOfTheZeroHoldFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.NewServer(t).Host("a").Connect(t, 4*time.Second).Client()
		if _, err := client.Create("/data", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		_, err := client.Multi(new(zklocks.Hold).Guard(&zk.SetDataRequest{Path: "/data", Version: -1})...)
		if !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("the transaction: %v, want %v", err, zk.ErrNoNode)
		}
		if _, stat, err := client.Exists("/data"); err != nil || stat.Version != 0 {
			t.Errorf("written: %+v, %v", stat, err)
		}
	})
}

// When the lock is lost, the context of the work is canceled at once, and the loss is its cause.
func TestWorkOfDoEndsWithTheHold(t *testing.T) {
	atDesk(t, func(d *desk) {
		err := zklocks.Do(d.Context(), d.lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
			d.lose(hold)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				t.Error("the lock is lost, and the context of the work goes on")
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("error: %v", err)
		}
	})
}

// The holder lacks READ on its own node, so the server withholds the event of the deletion. The
// holder's next recheck detects it.
func TestALossWithoutAnEvent(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		h, err := rwlock.New(locks.On(s.Connect()), s.Path).Lock(s.Ctx)
		s.Must(err)
		lost := h.Lost()
		const long = 10 * time.Second
		time.Sleep(long) // virtual: the first recheck has passed
		_, err = s.Witness.SetACL(contract.NodeOf(h), zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		s.Must(err)
		s.Must(s.Witness.Delete(contract.NodeOf(h), -1))
		select {
		case <-lost:
		case <-time.After(long): // virtual: until the next recheck
			s.Error("its node was deleted, and Lost is open")
		}
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	})
}

// A holder that lacks READ on its own node at its first call, or at a reconnect, detects the loss,
// too.
func TestALossOfANodeThatMayNotBeRead(t *testing.T) {
	for name, before := range map[string]bool{"at the first call": false, "before a reconnect": true} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				conn, through := s.Behind()
				h, err := rwlock.New(locks.On(conn), s.Path).Lock(s.Ctx)
				s.Must(err)
				if before {
					h.Lost()
					time.Sleep(time.Second) // virtual: the node is watched
				}
				_, err = s.Witness.SetACL(contract.NodeOf(h), zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
				s.Must(err)
				if before {
					through.Cut()
				}
				lost := h.Lost()
				time.Sleep(time.Second) // virtual: the watch was refused, or set again
				s.Must(s.Witness.Delete(contract.NodeOf(h), -1))
				select {
				case <-lost:
				case <-time.After(10 * time.Second): // virtual: longer than until the first recheck
					s.Error("its node was deleted, and Lost is open")
				}
				s.Is(h.Release(s.Ctx), zklocks.ErrLost)
			})
		})
	}
}

var open = zk.WorldACL(zk.PermAll)

// Multi refuses an operation whose result the client could not interpret, and a value that is not
// an operation, before it sends a request.
func TestMultiRefusesWhatItCouldNotJudge(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := d.lock.Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
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
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// A transaction that is too large for a server is not sent, and the error says so.
func TestMultiOfMoreThanTheClientSends(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := d.lock.Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		before := d.host.Seen(zktest.Any)
		_, err = hold.Multi(d.Context(), &zk.CreateRequest{Path: "/made", Data: make([]byte, 2<<20), Acl: open})
		if !errors.Is(err, zk.ErrShortBuffer) || !strings.Contains(err.Error(), "larger than servers take") {
			d.Errorf("multi: %v", err)
		}
		if n := d.host.Seen(zktest.Any) - before; n != 0 || !hold.Held() {
			d.Errorf("%d requests, held %v", n, hold.Held())
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// A downgrade that continues without its caller, because no server can be reached, blocks no other
// caller.
func TestMultiAndVerifyEndWithTheirContextsDuringADowngrade(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := d.lock.Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(d.Context(), time.Second)
			d.Cleanup(cancel)
			return ctx
		}
		d.host.Partition()
		if err := d.lock.Downgrade(short(), hold); !errors.Is(err, context.DeadlineExceeded) {
			d.Errorf("downgrade: %v", err)
		}
		for what, ask := range map[string]func(context.Context) error{
			"multi":  func(ctx context.Context) error { _, err := hold.Multi(ctx); return err },
			"verify": hold.Verify,
		} {
			began := time.Now()
			if err := ask(short()); !errors.Is(err, context.DeadlineExceeded) {
				d.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took > time.Second {
				d.Errorf("%s: its context bounds nothing: %v", what, took)
			}
		}
		d.host.Heal()
		if err := hold.Release(d.Context()); err != nil {
			d.Errorf("release: %v", err)
		}
	})
}

// Readers share a node, which remains when one of them releases. A transaction that this reader has
// not sent by then is not sent.
func TestMultiOfAHoldThatIsReleasedWhileItWaits(t *testing.T) {
	atDesk(t, func(d *desk) {
		a, err := d.lock.RLock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		b, err := d.lock.RLock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		d.host.Refuse()
		time.Sleep(100 * time.Millisecond) // virtual: the connection is lost
		result := make(chan error)
		go func() {
			_, err := a.Multi(d.Context(), &zk.CreateRequest{Path: "/made", Acl: open})
			result <- err
		}()
		synctest.Wait()
		if err := a.Release(d.Context()); err != nil {
			d.Error(err)
		}
		d.host.Accept()
		if err := <-result; !errors.Is(err, zklocks.ErrReleased) {
			d.Errorf("multi: %v", err)
		}
		if made, _, err := d.other.Client().Exists("/made"); made || err != nil {
			d.Errorf("made: %v, %v", made, err)
		}
		if err := b.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// Methods of zero and nil values return errors or do nothing.
func TestZeroAndNilValues(t *testing.T) {
	var conn zklocks.Conn
	if err := conn.Close(); err != nil || conn.SessionTimeout() != 0 || conn.Client() != nil {
		t.Errorf("a zero Conn: %v, %v, %v", err, conn.SessionTimeout(), conn.Client())
	}
	if err := conn.RequestRelease(t.Context(), zklocks.Member{Path: "/x/y"}); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("a request without a connection: %v", err)
	}
	for _, none := range []*zklocks.Conn{nil, &conn} {
		if _, err := rwlock.New(none, "/x").Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("a lock without a connection: %v", err)
		}
	}
	atDesk(t, func(d *desk) {
		for _, hold := range []*zklocks.Hold{nil, new(zklocks.Hold)} {
			if err := d.lock.Downgrade(d.Context(), hold); !errors.Is(err, zklocks.ErrLost) {
				d.Errorf("downgrade: %v", err)
			}
		}
		conn := d.server.Host("c").Connect(d, 4*time.Second, nil, zklocks.WithLogger(nil), zklocks.WithSessionEvents(nil), zklocks.WithDialer(nil))
		if _, _, err := conn.Client().Exists("/"); err != nil {
			d.Error(err)
		}
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
		ctx := t.Context()
		conn := zktest.NewServer(t).Host("a").Connect(t, 10*time.Second)
		rw, sem, re := rwlock.New(conn, "/rw"), semaphore.New(conn, "/sem", 5), reentrant.New(conn, "/re")
		for _, c := range []struct {
			lock         func(context.Context) (*zklocks.Hold, error)
			text, logged string
		}{
			{rw.Lock, "write /rw", "v.path=/rw v.kind=write v.node=… v.token=…"},
			{rw.RLock, "read /rw", "v.path=/rw v.kind=read v.node=… v.token=…"},
			{sem.Locker(3).Lock, "3 permits /sem", "v.path=/sem v.kind=permits v.permits=3 v.node=… v.token=…"},
			{re.Lock, "mutex /re", "v.path=/re v.kind=mutex v.node=… v.token=…"},
			{zklocks.All(rw.RLocker(), re).Lock, "read /rw and /re", `v.path="/rw and /re" v.kind=read v.node=… v.token=…`},
		} {
			h, err := c.lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if text, want := fmt.Sprint(h), fmt.Sprintf("%s, token %d", c.text, h.Token()); text != want {
				t.Errorf("%q, want %q", text, want)
			}
			if text := logged(h); text != c.logged {
				t.Errorf("logged as %s, want %s", text, c.logged)
			}
			if err := h.Release(ctx); err != nil {
				t.Error(err)
			}
			if text := fmt.Sprint(h); !strings.HasPrefix(text, c.text) {
				t.Errorf("%q after its release", text)
			}
		}
		if text := fmt.Sprint(new(zklocks.Hold)) + logged((*zklocks.Hold)(nil)); text != `no lockv="no lock"` {
			t.Errorf("the zero and the nil Hold are shown as %q", text)
		}

		h, err := rw.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		queue, err := rw.Queue(ctx)
		if err != nil || len(queue) != 1 {
			t.Fatal(queue, err)
		}
		m := queue[0]
		if text := fmt.Sprint(m); !strings.Contains(text, "path="+m.Path) || !strings.Contains(text, "holding=true") || strings.Contains(text, fmt.Sprint(m.Data)) {
			t.Errorf("a member is shown as %s", text)
		}
		if text := logged(m); !strings.HasPrefix(text, "v.path="+m.Path+" v.kind=write v.permits=1 v.holding=true v.since=2000-01-01T") {
			t.Errorf("a member is logged as %s", text)
		}
		if err := h.Release(ctx); err != nil {
			t.Error(err)
		}
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

// notes is a logger that collects lines.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) Printf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) about(text string) (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A hold that the program drops is reported, whatever the program has called and kept, and the lock
// remains held. A hold that was released or lost is not reported.
func TestAHoldThatIsNeverReleasedIsReported(t *testing.T) {
	var leaked sync.Map // observe.Leaked, by path
	observer := zklocks.WithObserver(observe.Observer{Leaked: func(e observe.Leaked) {
		if _, again := leaked.LoadOrStore(e.Path, e); again {
			t.Errorf("reported twice: %v", e)
		}
	}})
	log := new(notes)
	s := zktest.NewServer(t, zktest.WithHoldsLeft())
	ctx := t.Context()
	conn := s.Host("a").Connect(t, 10*time.Second, zklocks.WithLogger(log), observer)
	type lock = func(path string) func(context.Context) (*zklocks.Hold, error)
	recipes := map[string]lock{
		"/write": func(path string) func(context.Context) (*zklocks.Hold, error) { return rwlock.New(conn, path).Lock },
		"/read":  func(path string) func(context.Context) (*zklocks.Hold, error) { return rwlock.New(conn, path).RLock },
		"/handoff": func(path string) func(context.Context) (*zklocks.Hold, error) {
			return rwlock.New(conn, path, rwlock.WithHandoff(2)).Lock
		},
		"/permits": func(path string) func(context.Context) (*zklocks.Hold, error) {
			return semaphore.New(conn, path, 3).Locker(2).Lock
		},
		"/mutex": func(path string) func(context.Context) (*zklocks.Hold, error) { return reentrant.New(conn, path).Lock },
		"/term":  func(path string) func(context.Context) (*zklocks.Hold, error) { return leader.New(conn, path).Campaign },
		"/all": func(path string) func(context.Context) (*zklocks.Hold, error) {
			return zklocks.All(rwlock.New(conn, path), rwlock.New(conn, path+"-too")).Lock
		},
	}
	var kept []any
	use := func(h *zklocks.Hold) {
		work := h.Context(ctx)
		kept = append(kept, work, h.Lost(), h.ReleaseRequested(), context.AfterFunc(work, func() {}))
		if !h.Held() {
			t.Errorf("%v is not held", h)
		}
	}
	take := func(path string, lock lock) *zklocks.Hold {
		h, err := lock(path)(ctx)
		if err != nil {
			t.Fatal(err)
		}
		use(h)
		return h
	}
	for path, lock := range recipes {
		func() { take(path+"/dropped", lock) }()
		func() {
			if err := take(path+"/released", lock).Release(ctx); err != nil {
				t.Error(err)
			}
			h := take(path+"/lost", lock)
			for _, check := range h.Guard() {
				// If the first node is deleted, the hold is lost and deletes its other nodes.
				if err := conn.Client().Delete(check.(*zk.CheckVersionRequest).Path, -1); err != nil && err != zk.ErrNoNode {
					t.Fatal(err)
				}
			}
			<-h.Lost()
		}()
	}
	ran := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	leads := make(chan struct{})
	go func() {
		ran <- leader.New(conn, "/run").Run(running, func(ctx context.Context, _ *zklocks.Hold) error {
			close(leads)
			<-ctx.Done()
			return nil
		})
	}()
	<-leads
	inside := make(chan struct{})
	go func() {
		ran <- zklocks.Do(running, rwlock.New(conn, "/do").Lock, func(ctx context.Context, _ *zklocks.Hold) error {
			close(inside)
			<-ctx.Done()
			return nil
		})
	}()
	<-inside

	want := len(recipes) + 1 // All has two locks
	test.Eventually(t, time.Minute, "the dropped holds are reported", func() bool {
		runtime.GC()
		n := 0
		leaked.Range(func(any, any) bool { n++; return true })
		return n >= want
	})
	for range 5 { // nothing else is reported
		runtime.GC()
		runtime.Gosched()
	}
	leaked.Range(func(path, event any) bool {
		if e := event.(observe.Leaked); !strings.Contains(e.Path, "/dropped") || e.Held <= 0 || e.Token == 0 {
			t.Errorf("reported: %v", e)
		}
		return true
	})
	for path := range recipes {
		if lines := log.about(path + "/dropped,"); len(lines) != 1 || !strings.Contains(lines[0], "never released") {
			t.Errorf("logged of %s: %q", path, lines)
		}
		if n := len(log.about(path+"/released")) + len(log.about(path+"/lost")); n != 0 {
			t.Errorf("%d lines of holds of %s that have ended", n, path)
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
		hold, err := rwlock.New(host.Connect(t, timeout), "/far").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for time.Since(began) < time.Minute+10*timeout {
			far(host)
			if !hold.Held() {
				t.Fatalf("lost after %v: %v", time.Since(began), hold.Err())
			}
		}
		host.Heal()
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
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
