package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

func TestClose(t *testing.T) {
	for name, tc := range map[string]struct {
		begin func(*zktest.Host, *zklocks.Conn)
		heard bool
	}{
		"a server answers":     {func(*zktest.Host, *zklocks.Conn) {}, true},
		"no server is reached": {func(h *zktest.Host, _ *zklocks.Conn) { h.Partition() }, false},
		"the answer is lost":   {func(h *zktest.Host, _ *zklocks.Conn) { h.Replies().Partition() }, false},
		"the connection is lost": {func(h *zktest.Host, c *zklocks.Conn) {
			h.Refuse()
			for c.Client().State() == zk.StateHasSession {
				time.Sleep(time.Millisecond) // virtual: until the client has detected it
			}
		}, false},
		"the client was closed": {func(_ *zktest.Host, c *zklocks.Conn) { c.Client().Close() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				host := s.Host("a")
				conn, witness := host.Connect(t, 4*time.Second), s.Host("b").Connect(t, 10*time.Second)
				hold, err := rwlock.New(conn, "/close").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				tc.begin(host, conn)
				began := time.Now()
				if err := conn.Close(); (err == nil) != tc.heard {
					t.Errorf("close: %v", err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("close took %v", took)
				}
				<-hold.Lost()
				if !errors.Is(hold.Err(), zk.ErrClosing) {
					t.Errorf("the hold has ended by %v", hold.Err())
				}
				if err := conn.Close(); err != nil {
					t.Errorf("close again: %v", err)
				}
				if children, _, err := witness.Client().Children("/close"); tc.heard && (err != nil || len(children) != 0) {
					t.Errorf("left: %q, %v", children, err)
				}
				if _, err := rwlock.New(conn, "/close").Lock(t.Context()); !errors.Is(err, zk.ErrClosing) {
					t.Errorf("lock on a closed connection: %v", err)
				}
			})
		})
	}
}

// Each session event is delivered once, in order. The function may use the connection, and may be
// slow.
func TestWithSessionEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		var conn *zklocks.Conn
		var states, others []zk.State
		connected := make(chan struct{})
		conn = host.Connect(t, 4*time.Second,
			zklocks.WithSessionEvents(func(e zk.Event) {
				<-connected
				if e.State == zk.StateHasSession {
					if _, _, err := conn.Client().Exists("/"); err != nil {
						t.Errorf("the connection cannot be used: %v", err)
					}
				}
				time.Sleep(10 * time.Millisecond) // virtual: a slow function
				states = append(states, e.State)
			}),
			zklocks.WithSessionEvents(func(e zk.Event) { others = append(others, e.State) }))
		close(connected)
		time.Sleep(time.Second) // virtual, as below: all events have been delivered
		host.Cut()
		time.Sleep(time.Second) // virtual: it has reconnected
		s.Expire(conn.Client())
		time.Sleep(5 * time.Second) // virtual: longer than the session
		want := []zk.State{
			zk.StateConnecting, zk.StateConnected, zk.StateHasSession,
			zk.StateDisconnected, zk.StateConnecting, zk.StateConnected, zk.StateHasSession,
			zk.StateDisconnected, zk.StateConnecting, zk.StateConnected, zk.StateExpired,
			zk.StateDisconnected, zk.StateConnecting, zk.StateConnected, zk.StateHasSession,
		}
		synctest.Wait() // synctest also waits for the functions
		if !slices.Equal(states, want) || !slices.Equal(others, want) {
			t.Errorf("events\n%v and\n%v, want\n%v", states, others, want)
		}
	})
}

func TestSessionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := zktest.NewServer(t, zktest.WithTick(time.Second)).Host("a").Connect(t, time.Minute)
		if granted := conn.SessionTimeout(); granted != 20*time.Second {
			t.Errorf("%v", granted)
		}
	})
}

// Options of locks that Connect is given apply to all locks. Each lock may have others.
func TestOptionsOfConnectAreDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := zktest.NewServer(t).Host("a").Connect(t, 4*time.Second, zklocks.WithData([]byte("ours")))
		for name, tc := range map[string]struct {
			opts []rwlock.Option
			want string
		}{
			"default": {nil, "ours"},
			"own":     {[]rwlock.Option{zklocks.WithData([]byte("mine"))}, "mine"},
		} {
			lock := rwlock.New(conn, "/options/"+name, tc.opts...)
			err := zklocks.Do(t.Context(), lock.Lock, func(ctx context.Context, _ *zklocks.Hold) error {
				queue, err := lock.Queue(ctx)
				if err != nil || len(queue) != 1 || string(queue[0].Data) != tc.want {
					t.Errorf("%s: %+v, %v", name, queue, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// A nil context panics with the library's text, not with the runtime's.
func TestConnectWithoutAContext(t *testing.T) {
	defer func() {
		if p := recover(); p != "zklocks: the context is nil" {
			t.Errorf("panic %v", p)
		}
	}()
	var none context.Context
	_, err := zklocks.Connect(none, []string{"127.0.0.1:1"}, time.Second)
	t.Error(err)
}

func TestParseServers(t *testing.T) {
	for s, want := range map[string]struct {
		servers []string
		chroot  string
	}{
		"zk1":                         {[]string{"zk1"}, ""},
		"zk1:2181,zk2:2182":           {[]string{"zk1:2181", "zk2:2182"}, ""},
		"zk1:2181, zk2:2181/app/jobs": {[]string{"zk1:2181", "zk2:2181"}, "/app/jobs"},
		"[::1]:2181/":                 {[]string{"[::1]:2181"}, ""},
		"[::1],zk1/app":               {[]string{"[::1]", "zk1"}, "/app"}, // has port 2181
	} {
		servers, chroot, err := zklocks.ParseServers(s)
		if err != nil || !slices.Equal(servers, want.servers) || chroot != want.chroot {
			t.Errorf("%q: %q, %q, %v", s, servers, chroot, err)
		}
	}
	for _, s := range []string{"", "/app", "zk1,,zk2", "zk1:port", "zk1/a//b", "zk1/a/../b", "zk1/a/", "user:secret@zk1:2181", "user:sec/secret@zk1:2181", "user:1234/secret@zk1:2181", "zk1/a,zk2/a", "zk1]", "[zk1", "[[::1]]"} {
		if servers, chroot, err := zklocks.ParseServers(s); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %q, %q, %v", s, servers, chroot, err)
		}
	}
}

// All recipes work below the chroot, and their errors do not show it.
func TestWithChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		whole := s.Host("a").Connect(t, 4*time.Second)
		below := s.Host("b").Connect(t, 4*time.Second, zklocks.WithChroot("/app"))
		for name, lock := range map[string]func(conn *zklocks.Conn, path string) zklocks.Locker{
			"rwlock":    func(conn *zklocks.Conn, path string) zklocks.Locker { return rwlock.New(conn, path) },
			"reentrant": func(conn *zklocks.Conn, path string) zklocks.Locker { return reentrant.New(conn, path) },
			"semaphore": func(conn *zklocks.Conn, path string) zklocks.Locker { return semaphore.New(conn, path, 1).Locker(1) },
		} {
			hold, err := lock(below, "/"+name).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lock(whole, "/app/"+name).TryLock(t.Context()); !errors.Is(err, zklocks.ErrBusy) {
				t.Errorf("%s: the same lock by its whole path: %v", name, err)
			}
			if _, err := lock(below, "/"+name+"/").TryLock(t.Context()); err == nil || strings.Contains(err.Error(), "/app") {
				t.Errorf("%s: a path that is none: %v", name, err)
			}
			if _, err := hold.Multi(t.Context(), &zk.CheckVersionRequest{Path: "/app", Version: -1}); err != nil {
				t.Errorf("%s: multi: %v", name, err)
			}
			if err := hold.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		hold, err := rwlock.New(below, "/rwlock").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		queue, err := rwlock.New(below, "/rwlock").Queue(t.Context())
		if err != nil || len(queue) != 1 || !strings.HasPrefix(queue[0].Path, "/app/rwlock/") {
			t.Errorf("queue: %+v, %v", queue, err)
		}
		if err := below.RequestRelease(t.Context(), queue[0]); err != nil {
			t.Errorf("the path of a member is that on the server: %v", err)
		}
		<-hold.ReleaseRequested()
		if err := whole.Client().Delete(queue[0].Path, -1); err != nil {
			t.Fatal(err)
		}
		if err := hold.Release(t.Context()); !errors.Is(err, zklocks.ErrLost) || strings.Contains(err.Error(), "/app") {
			t.Errorf("release of a lost hold: %v", err)
		}
	})
}

// Path returns a path below the chroot, next to the locks.
func TestPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		whole := s.Host("a").Connect(t, 4*time.Second)
		below := s.Host("b").Connect(t, 4*time.Second, zklocks.WithChroot("/app"))
		for path, want := range map[string]string{"/": "/app", "/jobs/x": "/app/jobs/x", "/zookeeper": "/app/zookeeper", "": "", "jobs": "jobs"} {
			if got := below.Path(path); got != want {
				t.Errorf("%q: %q, want %q", path, got, want)
			}
			if got := whole.Path(path); got != path {
				t.Errorf("without a chroot %q: %q", path, got)
			}
		}
		err := zklocks.Do(t.Context(), rwlock.New(below, "/jobs/x").Lock, func(ctx context.Context, hold *zklocks.Hold) error {
			_, err := hold.Multi(ctx, &zk.CreateRequest{Path: below.Path("/jobs/last"), Acl: zk.WorldACL(zk.PermAll)})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if found, _, err := whole.Client().Exists("/app/jobs/last"); err != nil || !found {
			t.Errorf("the node is not below the chroot: %v", err)
		}
	})
}

func TestConnectRefusesAnInvalidChroot(t *testing.T) {
	for _, path := range []string{"app", "/app/", "/a//b"} {
		if _, err := zklocks.Connect(t.Context(), []string{"127.0.0.1:1"}, time.Second, zklocks.WithChroot(path)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// If two goroutines call Close, one receives the result, and neither returns before it is known.
func TestTwoClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := zktest.NewServer(t).Host("a")
		conn := host.Connect(t, 4*time.Second)
		host.Partition()
		type result struct {
			err error
			at  time.Time
		}
		results := make(chan result, 2)
		began := time.Now()
		for range 2 {
			go func() {
				err := conn.Close()
				results <- result{err, time.Now()}
			}()
		}
		a, b := <-results, <-results
		if (a.err == nil) == (b.err == nil) || a.at != b.at || !a.at.After(began) {
			t.Errorf("%v at %v and %v at %v", a.err, a.at, b.err, b.at)
		}
	})
}

// An option may be given to concurrent calls of Connect.
func TestOptionsCanBeShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tls, data := zklocks.WithTLS(nil), zklocks.WithData([]byte("x"))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				conn, err := zklocks.Connect(ctx, s.Addrs(), 4*time.Second, tls, data, zklocks.WithDialer(s.Host("a").Dial))
				if err == nil {
					t.Error("a server without TLS talks TLS")
					conn.Close()
				}
			})
		}
		all.Wait()
	})
}

// After a Connect that failed, the function receives no further event, however long it takes.
func TestSessionEventsEndWithConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var told atomic.Int64
		host.Next(zktest.Auth, zktest.LoseRequest)
		_, err := zklocks.Connect(ctx, s.Addrs(), 10*time.Second, zklocks.WithDialer(host.Dial), zklocks.WithDigestAuth("ann", "secret"),
			zklocks.WithSessionEvents(func(zk.Event) {
				told.Add(1)
				time.Sleep(3 * time.Second) // virtual: longer than Connect
			}))
		if err == nil {
			t.Fatal("connected")
		}
		time.Sleep(time.Minute) // virtual: time for further calls
		if n := told.Load(); n != 1 {
			t.Errorf("%d events, want only the event that was under way", n)
		}
	})
}

// The path of a lock may have the maximal length, and the path of a member is longer.
func TestAMemberOfTheLongestPathIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := zktest.NewServer(t).Host("a").Connect(t, 10*time.Second)
		lock := rwlock.New(conn, "/"+strings.Repeat("x", 1<<16-1))
		hold, err := lock.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		queue, err := lock.Queue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.RequestRelease(t.Context(), queue[0]); err != nil {
			t.Fatal(errors.Unwrap(err))
		}
		<-hold.ReleaseRequested()
		if err := hold.Release(t.Context()); err != nil {
			t.Error(errors.Unwrap(err))
		}
	})
}

func TestMain(m *testing.M) { leaks.Main(m) }

func second(_ any, err error) error { return err }

// Calls of zero values of the recipes, and of nil pointers to them, return errors.
func TestValuesThatNewHasNotMade(t *testing.T) {
	ctx := t.Context()
	work := func(context.Context, *zklocks.Hold) error { t.Error("work was called"); return nil }
	calls := map[string]map[string]error{}
	for _, m := range []*rwlock.RWMutex{nil, new(rwlock.RWMutex)} {
		calls[fmt.Sprintf("rwlock: RWMutex was not made by New, nil %v", m == nil)] = map[string]error{
			"Lock": second(m.Lock(ctx)), "TryLock": second(m.TryLock(ctx)), "RLock": second(m.RLock(ctx)), "TryRLock": second(m.TryRLock(ctx)),
			"RLocker.Lock": second(m.RLocker().Lock(ctx)), "RLocker.TryLock": second(m.RLocker().TryLock(ctx)),
			"Queue": second(m.Queue(ctx)), "Downgrade": m.Downgrade(ctx, new(zklocks.Hold)), "Do": zklocks.Do(ctx, m.Lock, work),
		}
	}
	for _, m := range []*reentrant.Mutex{nil, new(reentrant.Mutex)} {
		calls[fmt.Sprintf("reentrant: Mutex was not made by New, nil %v", m == nil)] = map[string]error{
			"Lock": second(m.Lock(ctx)), "TryLock": second(m.TryLock(ctx)), "Queue": second(m.Queue(ctx)),
		}
	}
	for _, s := range []*semaphore.Semaphore{nil, new(semaphore.Semaphore)} {
		calls[fmt.Sprintf("semaphore: Semaphore was not made by New, nil %v", s == nil)] = map[string]error{
			"Acquire": second(s.Acquire(ctx, 1)), "TryAcquire": second(s.TryAcquire(ctx, 1)), "Resize": s.Resize(ctx, 1), "Queue": second(s.Queue(ctx)),
			"Locker.Lock": second(s.Locker(1).Lock(ctx)), "Locker.TryLock": second(s.Locker(1).TryLock(ctx)), "All": second(zklocks.All(s.Locker(1)).Lock(ctx)),
		}
	}
	for _, e := range []*leader.Election{nil, new(leader.Election)} {
		observed := error(nil)
		for _, err := range e.Observe(ctx) {
			observed = err
		}
		calls[fmt.Sprintf("leader: Election was not made by New, nil %v", e == nil)] = map[string]error{
			"Campaign": second(e.Campaign(ctx)), "Run": e.Run(ctx, work), "Proclaim": e.Proclaim(ctx, new(zklocks.Hold), nil),
			"Leader": second(e.Leader(ctx)), "Queue": second(e.Queue(ctx)), "Observe": observed,
		}
	}
	for _, j := range []*once.Job{nil, new(once.Job)} {
		calls[fmt.Sprintf("once: Job was not made by New, nil %v", j == nil)] = map[string]error{
			"RunEvery": j.RunEvery(ctx, time.Second, work), "RunSlot": j.RunSlot(ctx, "1", work), "Last": second(j.Last(ctx)),
		}
	}
	for what, errs := range calls {
		want, _, _ := strings.Cut(what, ",")
		for call, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: error %v", what, call, err)
			}
		}
	}
}

// All names a nil lock in its error: passing nil is the most likely mistake.
func TestAllNamesANilLock(t *testing.T) {
	for name, lock := range map[string]zklocks.Locker{"<nil>": nil, "*rwlock.RWMutex": (*rwlock.RWMutex)(nil)} {
		_, err := zklocks.All(lock).Lock(t.Context())
		if want := "zklocks: lock all: " + name + ": not a lock that New of rwlock, reentrant or semaphore has made, or nil"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Methods that return no error panic with the same text.
func TestNilValuesPanicWithAText(t *testing.T) {
	var conn *zklocks.Conn
	for what, call := range map[string]func(){
		"reentrant: Mutex was not made by New":  func() { (*reentrant.Mutex)(nil).HoldCount() },
		"leader: Election was not made by New":  func() { (*leader.Election)(nil).Status() },
		"zklocks: the connection is nil":        func() { conn.Client() },
		"zklocks: the connection is nil, again": func() { conn.Path("/a") },
		"zklocks: the connection is nil, twice": func() { conn.SessionTimeout() },
	} {
		func() {
			defer func() {
				if want, _, _ := strings.Cut(what, ","); fmt.Sprint(recover()) != want {
					t.Errorf("no panic %q", want)
				}
			}()
			call()
		}()
	}
	if err := conn.Close(); err == nil || err.Error() != "zklocks: the connection is nil" {
		t.Errorf("close: %v", err)
	}
	if err := conn.RequestRelease(t.Context(), zklocks.Member{Path: "/a"}); err == nil || !strings.Contains(err.Error(), "the connection is nil") {
		t.Errorf("request release: %v", err)
	}
}

func TestNilHold(t *testing.T) {
	for name, hold := range map[string]*zklocks.Hold{"nil": nil, "zero": new(zklocks.Hold)} {
		for call, err := range map[string]error{
			"Err": hold.Err(), "Release": hold.Release(t.Context()), "Verify": hold.Verify(t.Context()), "Multi": second(hold.Multi(t.Context())),
			"Context": context.Cause(hold.Context(t.Context())),
		} {
			if !errors.Is(err, zklocks.ErrLost) || err.Error() != "lock lost: the Hold is nil, or no lock has returned it" {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
		if hold.Held() || hold.Token() != 0 || !hold.ValidUntil().IsZero() || hold.ReleaseRequested() != nil || len(hold.Guard()) != 1 {
			t.Errorf("%s: it seems to be held", name)
		}
		<-hold.Lost()
	}
}

// Servers grant different timeouts to one session if their minSessionTimeout and maxSessionTimeout
// differ, or if one of them was restarted with other limits. Here the client's handshake asks for
// the timeout that such a server would grant.

// granting connects a host. next returns the timeout of each connection but the first.
func granting(t *testing.T, s *zktest.Server, host *zktest.Host, next func() time.Duration) *zklocks.Conn {
	t.Helper()
	var dials atomic.Int32
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := host.Dial(ctx, network, addr)
		if err == nil && dials.Add(1) > 1 {
			c = test.AskFor(c, next())
		}
		return c, err
	}
	conn, err := zklocks.Connect(ctx, s.Addrs(), 40*time.Second, zklocks.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		time.Sleep(2 * time.Second) // virtual: it reconnects and closes the session
		_ = conn.Close()
		time.Sleep(2 * time.Second) // virtual: its goroutines end
	})
	return conn
}

// toldBefore fails unless lost is closed. It is called when the next caller holds the lock.
func toldBefore(t *testing.T, lost <-chan struct{}, when string, args ...any) {
	t.Helper()
	select {
	case <-lost:
	default:
		t.Errorf(when+": the next one holds, and the holder was not told", args...)
	}
}

// A holder reconnects, is granted a shorter session timeout, and is cut off a moment later. Lost is
// closed before the next caller holds.
func TestALossIsToldInTimeAfterAShorterTimeoutIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		conn := granting(t, s, host, func() time.Duration { return 4 * time.Second })
		next := rwlock.New(s.Host("b").Connect(t, 4*time.Second), path)
		hold, err := rwlock.New(conn, path).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lost := hold.Lost()
		time.Sleep(time.Second) // virtual: long before the first heartbeat, which comes after 9/32 of 40 s
		host.Cut()
		time.Sleep(500 * time.Millisecond) // virtual: it reconnects
		host.Partition()
		second, err := next.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		toldBefore(t, lost, "after a cut")
		host.Heal()
		if err := hold.Release(t.Context()); !errors.Is(err, zklocks.ErrLost) {
			t.Error(err)
		}
		if err := second.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The answer to the handshake arrives right before the timeout that it grants has passed. Lost is
// closed at the deadline, although the first heartbeat has not been sent.
func TestLostIsClosedAtTheDeadlineAfterASlowHandshake(t *testing.T) {
	const shorter = time.Second
	for left := time.Millisecond; left < 20*time.Millisecond; left += 2 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithTick(shorter/2))
			host := s.Host("a")
			conn := granting(t, s, host, func() time.Duration { return shorter })
			hold, err := rwlock.New(conn, path).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lost := hold.Lost()
			answer := host.Next(zktest.Handshake, zktest.DelayReply(shorter-left))
			host.Cut()
			<-answer.Fired()
			for conn.SessionTimeout() != shorter {
				time.Sleep(50 * time.Microsecond) // virtual: until it has reconnected
			}
			host.Partition()
			deadline := hold.ValidUntil()
			<-lost
			if late := time.Since(deadline); late > 0 {
				t.Errorf("%v before the deadline: told %v after it", left, late)
			}
			host.Heal()
			_ = hold.Release(t.Context()) // it was lost
		})
	}
}

// A holder reconnects and is granted a shorter session timeout. It is not cut off, so the hold
// continues.
func TestAHoldContinuesAfterAShorterTimeoutIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		conn := granting(t, s, host, func() time.Duration { return 4 * time.Second })
		hold, err := rwlock.New(conn, path).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // virtual: longer than the timeout to come, and before the first heartbeat
		host.Cut()
		select {
		case <-hold.Lost():
			t.Error(hold.Err())
		case <-time.After(time.Minute): // virtual: many timeouts
		}
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// One follower grants a short timeout, and then another server a long timeout. The first follower
// reports the session to the leader once more, and from then on the leader uses the short timeout.
func TestALossIsToldInTimeAfterALongerTimeoutIsGranted(t *testing.T) {
	for offset := time.Duration(0); offset < time.Second; offset += 50 * time.Millisecond { // between two pings of the leader
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithMembers(3))
			all := s.Members()
			former := all[2] // reports after all others
			if s.Leader() == former {
				s.Elect(all[0])
			}
			host := s.Host("a")
			granted := 4 * time.Second
			conn := granting(t, s, host, func() time.Duration { return granted })
			next := rwlock.New(s.Host("b").Connect(t, 4*time.Second), path)
			hold, err := rwlock.New(conn, path).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lost := hold.Lost()
			for _, m := range all[:2] {
				host.To(m).Partition()
			}
			host.Cut()
			time.Sleep(5*time.Second + offset) // virtual: it reconnects to the former follower
			if err := hold.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			granted = 40 * time.Second
			host.Heal()
			host.To(former).Partition()
			host.Cut()
			if err := hold.Verify(t.Context()); err != nil { // through another server
				t.Fatal(err)
			}
			host.Partition()
			second, err := next.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			toldBefore(t, lost, "after %v", offset)
			host.Heal()
			_ = hold.Release(t.Context()) // it was lost
			_ = second.Release(t.Context())
		})
	}
}

// Reconnects are granted shorter and longer timeouts, and leaders are elected meanwhile. Lost is
// closed before the next caller holds.
func TestTimeoutsThatChangeAtRandom(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r, of := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			s := zktest.NewServer(t, zktest.WithMembers(3), zktest.WithSeed(seed))
			host := s.Host("a")
			// The client dials one server at a time.
			conn := granting(t, s, host, func() time.Duration {
				return []time.Duration{4, 5, 8, 12, 40}[of.IntN(5)] * time.Second
			})
			next := rwlock.New(s.Host("b").Connect(t, 4*time.Second), path)
			hold, err := rwlock.New(conn, path).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lost, done := hold.Lost(), make(chan struct{})
			go func() {
				defer close(done)
				second, err := next.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				toldBefore(t, lost, "seed %d", seed)
				_ = second.Release(t.Context())
			}()
			for range r.IntN(6) {
				time.Sleep(time.Duration(r.IntN(15_000)) * time.Millisecond) // virtual: heartbeats and reconnects
				if m := s.Members()[r.IntN(3)]; r.IntN(5) == 0 && m != s.Leader() {
					s.Elect(m)
				} else {
					host.Cut()
				}
			}
			time.Sleep(time.Duration(r.IntN(15_000)) * time.Millisecond) // virtual: the same
			host.Partition()
			<-done
			host.Heal()
			_ = hold.Release(t.Context()) // it may have been lost before
		})
	}
}

// One server has granted a short timeout to the session, and then another server a long timeout.
// The client must still use the short timeout to detect a frozen server, because the session may
// expire after that time.
func TestAFrozenServerIsNoticedByTheShortestTimeout(t *testing.T) {
	const shortest = 6 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		host := s.Host("a")
		granted := shortest
		var dialed atomic.Pointer[time.Time]
		conn, err := zklocks.Connect(t.Context(), s.Addrs(), shortest, zklocks.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			now := time.Now()
			dialed.Store(&now)
			c, err := host.Dial(ctx, network, addr)
			if err == nil {
				c = test.AskFor(c, granted)
			}
			return c, err
		}))
		if err != nil {
			t.Fatal(err)
		}
		hold, err := rwlock.New(conn, path).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		granted = 40 * time.Second
		host.Cut()
		time.Sleep(10 * time.Second) // virtual: several heartbeats by the next member
		if err := hold.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := conn.SessionTimeout(); got != shortest {
			t.Errorf("session timeout %v", got)
		}
		at := conn.Client().Server()
		for _, m := range s.Members() {
			if m.Addr() == at {
				host.To(m).Freeze()
			}
		}
		frozen := time.Now()
		time.Sleep(2 * shortest) // virtual: time to detect it, and to connect to another server
		switch again := *dialed.Load(); {
		case again.Before(frozen):
			t.Errorf("not noticed within %v", time.Since(frozen))
		case again.Sub(frozen) > shortest*2/3:
			t.Errorf("noticed after %v", again.Sub(frozen))
		}
		host.Thaw()
		_ = hold.Release(t.Context()) // it may be lost
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // virtual: its goroutines end
	})
}

// The timeouts granted to one session do not limit the next session.
func TestANewSessionAsksForTheTimeoutOfConnect(t *testing.T) {
	const long, short = 40 * time.Second, 6 * time.Second
	for name, grants := range map[string][]time.Duration{
		"after a short timeout":                {short},
		"after a short timeout and a long one": {short, long},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t, zktest.WithMembers(3))
				host := s.Host("a")
				dials := 0
				conn, err := zklocks.Connect(t.Context(), s.Addrs(), long, zklocks.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := host.Dial(ctx, network, addr)
					if err == nil && dials < len(grants) {
						c = test.AskFor(c, grants[dials])
					}
					dials++
					return c, err
				}))
				if err != nil {
					t.Fatal(err)
				}
				for range grants[1:] {
					host.Cut()
					time.Sleep(2 * time.Second) // virtual: it reconnects
				}
				if got := conn.SessionTimeout(); got != short {
					t.Errorf("session timeout %v", got)
				}
				first := conn.Client().SessionID()
				s.Expire(conn)
				time.Sleep(2 * time.Second) // virtual: it gets another session
				if got := conn.SessionTimeout(); got != long || conn.Client().SessionID() == first {
					t.Errorf("session timeout %v of the next session", got)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Second) // virtual: its goroutines end
			})
		})
	}
}
