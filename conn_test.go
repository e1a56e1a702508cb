package zklocks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
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
				time.Sleep(time.Millisecond) // virtual: until the client has noticed
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

// Each session event comes once, in order, to a function that may use the connection and takes its
// time.
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
				time.Sleep(10 * time.Millisecond) // virtual: a function that takes its time
				states = append(states, e.State)
			}),
			zklocks.WithSessionEvents(func(e zk.Event) { others = append(others, e.State) }))
		close(connected)
		time.Sleep(time.Second) // virtual, as below: all events have come
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
		synctest.Wait() // for the functions, and not only for the time
		if !slices.Equal(states, want) || !slices.Equal(others, want) {
			t.Errorf("told of\n%v and\n%v, want\n%v", states, others, want)
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

// Options of locks that Connect is given are those of all locks, and each lock may have others.
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

// As everywhere, and not with a text of the runtime's.
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

// All recipes are below the chroot, and their errors do not show it.
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

// A node of the program that is named by Path is below the chroot, as the locks are.
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

func TestConnectRefusesAChrootThatIsNone(t *testing.T) {
	for _, path := range []string{"app", "/app/", "/a//b"} {
		if _, err := zklocks.Connect(t.Context(), []string{"127.0.0.1:1"}, time.Second, zklocks.WithChroot(path)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// Of two goroutines that close at once one gets the result, and none returns before it is known.
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

// One option may be given to many calls of Connect, at the same time.
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

// A Connect that fails calls the function with no further event of the session, however long the
// function takes.
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
				time.Sleep(3 * time.Second) // virtual: it outlasts Connect
			}))
		if err == nil {
			t.Fatal("connected")
		}
		time.Sleep(time.Minute) // virtual: calls that are still due come
		if n := told.Load(); n != 1 {
			t.Errorf("told of %d events, want the one that was under way", n)
		}
	})
}

// The path of a member is longer than that of its lock, which may be as long as any.
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
