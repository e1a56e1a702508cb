package zklocks_test

import (
	"context"
	"errors"
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
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

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
				hold := take(t, rwlock.New(conn, "/close").Lock)
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

// A connection has all identities that it was given, also after a reconnect and in a new session.
func TestTwoIdentities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		conn := host.Connect(t, 10*time.Second, zklocks.WithDigestAuth("ann", "secret"), zklocks.WithDigestAuth("bob", "hidden"))
		for when, begin := range map[string]func(){"at once": func() {}, "after a reconnect": host.Cut, "in a new session": func() { s.Expire(conn) }} {
			begin()
			time.Sleep(time.Second) // virtual: until it has reconnected
			for user, password := range map[string]string{"ann": "secret", "bob": "hidden"} {
				path, err := conn.Client().Create("/of-"+user, nil, zk.FlagEphemeral|zk.FlagSequence, zk.DigestACL(zk.PermAll, user, password))
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := conn.Client().Get(path); err != nil {
					t.Errorf("%s: as %s: %v", when, user, err)
				}
			}
		}
	})
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
	for s, says := range map[string]string{"": "the connect string is empty", " ": "the connect string is empty", "/app": "has no server"} {
		if _, _, err := zklocks.ParseServers(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", s, err, says)
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
			hold := take(t, lock(below, "/"+name).Lock)
			if _, err := lock(whole, "/app/"+name).TryLock(t.Context()); !errors.Is(err, zklocks.ErrBusy) {
				t.Errorf("%s: the same lock by its whole path: %v", name, err)
			}
			if _, err := lock(below, "/"+name+"/").TryLock(t.Context()); err == nil || strings.Contains(err.Error(), "/app") {
				t.Errorf("%s: a path that is none: %v", name, err)
			}
			if _, err := hold.Multi(t.Context(), &zk.CheckVersionRequest{Path: "/app", Version: -1}); err != nil {
				t.Errorf("%s: multi: %v", name, err)
			}
			release(t, hold)
		}
		hold := take(t, rwlock.New(below, "/rwlock").Lock)
		queue, err := rwlock.New(below, "/rwlock").Queue(t.Context())
		if err != nil || len(queue) != 1 || !strings.HasPrefix(queue[0].Path, "/app/rwlock/") {
			t.Errorf("queue: %+v, %v", queue, err)
		}
		if err := below.RequestRelease(t.Context(), queue[0]); err != nil {
			t.Errorf("the path of a member is that on the server: %v", err)
		}
		<-hold.ReleaseRequested()
		must(t, whole.Client().Delete(queue[0].Path, -1))
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

// An option may be given to concurrent calls of Connect, here to a server without TLS.
func TestOptionsCanBeShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		options := []zklocks.ConnectOption{zklocks.WithTLS(nil), zklocks.WithData([]byte("x")), zklocks.WithDialer(s.Host("a").Dial)}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := zklocks.Connect(ctx, s.Addrs(), 4*time.Second, options...); err == nil {
					t.Error("a server without TLS talks TLS")
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
		hold := take(t, lock.Lock)
		queue, err := lock.Queue(t.Context())
		must(t, err)
		if err := conn.RequestRelease(t.Context(), queue[0]); err != nil {
			t.Fatal(errors.Unwrap(err))
		}
		<-hold.ReleaseRequested()
		if err := hold.Release(t.Context()); err != nil {
			t.Error(errors.Unwrap(err))
		}
	})
}

// grants are the session timeouts that servers grant. They grant different timeouts to one session
// if their minSessionTimeout and maxSessionTimeout differ, or if one of them was restarted with
// other limits. Here the client's handshake asks for the timeout that such a server would grant.
type grants struct {
	*desk
	next   atomic.Int64              // of the next connections; 0: what the client asks for
	dialed atomic.Pointer[time.Time] // when the client dialed last
}

func (g *grants) grant(timeout time.Duration) { g.next.Store(int64(timeout)) }

// granting is atDesk with a connection that is granted 40 s at first, and later the given timeout.
func granting(t *testing.T, timeout time.Duration, f func(g *grants), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, opts...)
		host, g := s.Host("a"), new(grants)
		conn, err := zklocks.Connect(t.Context(), s.Addrs(), 40*time.Second, zklocks.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			now := time.Now()
			g.dialed.Store(&now)
			c, err := host.Dial(ctx, network, addr)
			if next := time.Duration(g.next.Load()); err == nil && next > 0 {
				c = test.AskFor(c, next)
			}
			return c, err
		}))
		must(t, err)
		g.grant(timeout)
		g.desk = &desk{T: t, server: s, host: host, conn: conn, other: s.Host("b").Connect(t, 4*time.Second), lock: rwlock.New(conn, path)}
		f(g)
		time.Sleep(2 * time.Second) // virtual: it reconnects and closes the session
		_ = conn.Close()
		time.Sleep(2 * time.Second) // virtual: its goroutines end
	})
}

// overtaken waits until another process holds the lock. Lost must have been closed before.
func (d *desk) overtaken(hold *zklocks.Hold, lost <-chan struct{}) {
	d.Helper()
	next := take(d, rwlock.New(d.other, path).Lock)
	select {
	case <-lost:
	default:
		d.Error("the next one holds, and the holder was not told")
	}
	d.host.Heal()
	if err := hold.Release(d.Context()); !errors.Is(err, zklocks.ErrLost) {
		d.Error(err)
	}
	release(d, next)
}

// A holder reconnects, is granted a shorter session timeout, and is cut off a moment later.
func TestALossIsToldInTimeAfterAShorterTimeoutIsGranted(t *testing.T) {
	granting(t, 4*time.Second, func(d *grants) {
		hold := take(d, d.lock.Lock)
		lost := hold.Lost()
		time.Sleep(time.Second) // virtual: long before the first heartbeat, which comes after 9/32 of 40 s
		d.host.Cut()
		time.Sleep(500 * time.Millisecond) // virtual: it reconnects
		d.host.Partition()
		d.overtaken(hold, lost)
	})
}

// The answer to the handshake arrives right before the timeout that it grants has passed. Lost is
// closed at the deadline, although the first heartbeat has not been sent.
func TestLostIsClosedAtTheDeadlineAfterASlowHandshake(t *testing.T) {
	const shorter = time.Second
	for left := time.Millisecond; left < 20*time.Millisecond; left += 2 * time.Millisecond {
		granting(t, shorter, func(d *grants) {
			hold := take(d, d.lock.Lock)
			lost := hold.Lost()
			answer := d.host.Next(zktest.Handshake, zktest.DelayReply(shorter-left))
			d.host.Cut()
			<-answer.Fired()
			for d.conn.SessionTimeout() != shorter {
				time.Sleep(50 * time.Microsecond) // virtual: until it has reconnected
			}
			d.host.Partition()
			deadline := hold.ValidUntil()
			<-lost
			if late := time.Since(deadline); late > 0 {
				d.Errorf("%v before the deadline: told %v after it", left, late)
			}
			d.host.Heal()
			_ = hold.Release(d.Context()) // it was lost
		}, zktest.WithTick(shorter/2))
	}
}

// A holder reconnects and is granted a shorter session timeout. It is not cut off, so the hold
// continues.
func TestAHoldContinuesAfterAShorterTimeoutIsGranted(t *testing.T) {
	granting(t, 4*time.Second, func(d *grants) {
		hold := take(d, d.lock.Lock)
		time.Sleep(5 * time.Second) // virtual: longer than the timeout to come, and before the first heartbeat
		d.host.Cut()
		select {
		case <-hold.Lost():
			d.Error(hold.Err())
		case <-time.After(time.Minute): // virtual: many timeouts
		}
		release(d, hold)
	})
}

// One follower grants a short timeout, and then another server a long timeout. The first follower
// reports the session to the leader once more, and from then on the leader uses the short timeout.
func TestALossIsToldInTimeAfterALongerTimeoutIsGranted(t *testing.T) {
	for offset := time.Duration(0); offset < time.Second; offset += 50 * time.Millisecond { // between two pings of the leader
		granting(t, 4*time.Second, func(d *grants) {
			all := d.server.Members()
			former := all[2] // reports after all others
			if d.server.Leader() == former {
				d.server.Elect(all[0])
			}
			hold := take(d, d.lock.Lock)
			lost := hold.Lost()
			for _, m := range all[:2] {
				d.host.To(m).Partition()
			}
			d.host.Cut()
			time.Sleep(5*time.Second + offset) // virtual: it reconnects to the former follower
			must(d, hold.Verify(d.Context()))
			d.grant(40 * time.Second)
			d.host.Heal()
			d.host.To(former).Partition()
			d.host.Cut()
			must(d, hold.Verify(d.Context())) // through another server
			d.host.Partition()
			d.overtaken(hold, lost)
		}, zktest.WithMembers(3))
	}
}

// One server has granted a short timeout to the session, and then another server a long timeout.
// The client must still use the short timeout to detect a frozen server, because the session may
// expire after that time.
func TestAFrozenServerIsNoticedByTheShortestTimeout(t *testing.T) {
	const shortest = 6 * time.Second
	granting(t, shortest, func(d *grants) {
		hold := take(d, d.lock.Lock)
		for _, timeout := range []time.Duration{shortest, 40 * time.Second} {
			d.grant(timeout)
			d.host.Cut()
			time.Sleep(10 * time.Second) // virtual: it reconnects, and sends several heartbeats
		}
		must(d, hold.Verify(d.Context()))
		if got := d.conn.SessionTimeout(); got != shortest {
			d.Errorf("session timeout %v", got)
		}
		at := d.conn.Client().Server()
		for _, m := range d.server.Members() {
			if m.Addr() == at {
				d.host.To(m).Freeze()
			}
		}
		frozen := time.Now()
		time.Sleep(2 * shortest) // virtual: time to detect it, and to connect to another server
		switch again := *d.dialed.Load(); {
		case again.Before(frozen):
			d.Errorf("not noticed within %v", time.Since(frozen))
		case again.Sub(frozen) > shortest*2/3+time.Second/100: // the dial comes a moment later
			d.Errorf("noticed after %v", again.Sub(frozen))
		}
		d.host.Thaw()
		_ = hold.Release(d.Context()) // it may be lost
	}, zktest.WithMembers(3))
}

// The timeouts granted to one session do not limit the next session.
func TestANewSessionAsksForTheTimeoutOfConnect(t *testing.T) {
	const long, short = 40 * time.Second, 6 * time.Second
	for _, timeouts := range [][]time.Duration{{short}, {short, long}} {
		granting(t, 0, func(d *grants) {
			for _, timeout := range timeouts {
				d.grant(timeout)
				d.host.Cut()
				time.Sleep(2 * time.Second) // virtual: it reconnects
			}
			if got := d.conn.SessionTimeout(); got != short {
				d.Errorf("session timeout %v", got)
			}
			first := d.conn.Client().SessionID()
			d.grant(0)
			d.server.Expire(d.conn)
			time.Sleep(2 * time.Second) // virtual: it gets another session
			if got := d.conn.SessionTimeout(); got != long || d.conn.Client().SessionID() == first {
				d.Errorf("session timeout %v of the next session", got)
			}
		}, zktest.WithMembers(3))
	}
}
