package contract

import (
	"context"
	"errors"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

func TestMain(m *testing.M) { Main(m) }

// The listing of 20,000 members is larger than the 1 MiB at which clients of other languages end a
// connection.
func TestBehindThousands(t *testing.T) {
	t.Parallel()
	r := Recipe{Nodes: 1, New: func(conn *zklocks.Conn, path string, _ ...zklocks.Option) Locker {
		m := reentrant.New(conn, path)
		return Locker{Locker: m, Block: m.Lock, Queue: m.Queue}
	}}
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		const members = 20_000
		scenario{run: func(s *scene) { s.behindOwnerless(members) }}.play(t, v, r)
		if bytes := members * len("    _c_00000000-0000-4000-8000-000000000000-lock-0000000000"); bytes <= 1<<20 {
			t.Errorf("a listing of %d bytes", bytes)
		}
	})
}

// A request may be nearly as large as a server takes. One byte of data, or one permit, more is
// refused before it is sent.
func TestTheLargestRequest(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	for what, c := range map[string]struct {
		of          func(conn *zklocks.Conn, n int) zklocks.Locker // a lock whose request has n bytes or permits
		least, most int                                            // the largest n is between the two
	}{
		"data": {func(conn *zklocks.Conn, n int) zklocks.Locker {
			data := zklocks.WithData(make([]byte, n))
			return zklocks.All(rwlock.New(conn, path+"-a", data), rwlock.New(conn, path+"-b", data))
		}, 490_000, 500_000},
		"permits": {func(conn *zklocks.Conn, n int) zklocks.Locker {
			return semaphore.New(conn, path+"-permits", 20_000).Locker(n)
		}, 4000, 10_000},
	} {
		fits := func(t *testing.T, conn *wire.Conn, n int) bool {
			hold, err := c.of(locks.On(conn), n).Lock(t.Context())
			if err == nil {
				err = hold.Release(t.Context())
			} else if strings.Contains(err.Error(), "more than a server takes") {
				return false
			}
			if err != nil {
				t.Fatalf("%s, %d: %v", what, n, err)
			}
			return true
		}
		largest := 0
		t.Run(what, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				conn := v.Connect(t, session)
				largest = sort.Search(c.most, func(n int) bool { return !fits(t, conn, n+1) })
			})
		})
		if largest < c.least || largest >= c.most {
			t.Errorf("%s: at most %d, not between %d and %d", what, largest, c.least, c.most)
		}
		conn := realzk.Connect(t, session)
		if !fits(t, conn, largest) || fits(t, conn, largest+1) {
			t.Errorf("%s: a real server takes another number than %d", what, largest)
		}
	}
}

// A member of an ensemble without a quorum may serve reads (readonlymode.enabled). It gives no
// session to a client that did not ask for this, so it grants nothing, however stale its state is.
func TestAReadOnlyMember(t *testing.T) {
	t.Parallel()
	ensemble := realzk.Cluster(t, 3, realzk.Options{JVM: []string{"-Dreadonlymode.enabled=true"}})
	left := ensemble.Servers()[0]
	conn := realzk.Connect(t, 4*time.Second, left.Addr())
	lock := rwlock.New(locks.On(conn), test.Path(t))
	hold, err := lock.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range ensemble.Servers()[1:] {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	test.Eventually(t, soon, "the last member serves reads", func() bool {
		answer, err := left.Word("isro")
		return err == nil && answer == "ro"
	})
	test.Within(t, soon, "the loss is reported", func() { <-hold.Lost() })
	for _, call := range []lockFunc{lock.Lock, lock.TryLock} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, zklocks.ErrNoAnswer) {
			t.Errorf("%v, want %v and %v", err, context.DeadlineExceeded, zklocks.ErrNoAnswer)
		}
		cancel()
	}
	if err := ensemble.Servers()[1].Restart(); err != nil { // two of three members are a quorum
		t.Fatal(err)
	}
	if hold, err = lock.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := hold.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A server answers credentials without recording that the session is in use. So their answer must
// not count for the deadline. Here the last report of the follower to the leader is of a ping 870
// ms earlier. Then the follower is killed.
func TestCredentialsDoNotTouchTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		until := func(ms time.Duration) { time.Sleep(time.Until(start.Add(ms * time.Millisecond))) }
		s := zktest.NewServer(t, zktest.WithMembers(3))
		until(940)
		s.Elect(s.Members()[0]) // the leader pings its followers 0.94 s into each second; sessions end at even seconds
		follower := s.Members()[1]
		witness, err := wire.Connect(t.Context(), s.Addrs()[:1], 10*time.Second, wire.WithDialer(s.Host("b").Dial))
		must(err)
		defer witness.Close()
		until(4600)
		conn, err := wire.Connect(t.Context(), []string{follower.Addr()}, 4*time.Second, wire.WithDialer(s.Host("a").Dial))
		must(err)
		defer conn.Close()
		until(6800) // the client has pinged at 5.93 s: the leader counts from 5.94 s
		must(conn.Client().AddAuth("digest", []byte("ann:secret")))
		until(7928)
		former, err := rwlock.New(locks.On(conn), "/lock").Lock(t.Context())
		must(err)
		follower.Kill()
		deadline := former.ValidUntil()
		next, err := rwlock.New(locks.On(witness), "/lock").Lock(t.Context())
		must(err)
		if former.Held() {
			t.Errorf("the next one holds after %v, the former until %v", time.Since(start), deadline.Sub(start))
		}
		must(next.Release(t.Context()))
	})
}
