package contract

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

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
		must(conn.AddAuth("digest", []byte("ann:secret")))
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
