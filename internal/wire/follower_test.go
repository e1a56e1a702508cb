package wire_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// A follower that is paused may not have reported its clients' last packets to the leader. The
// deadline must not count packets that only the follower has received: it must pass before another
// client can see the session's nodes deleted.
func TestDeadlineOnFrozenFollower(t *testing.T) {
	t.Parallel()
	const (
		tick    = 300 * time.Millisecond
		timeout = 4 * tick
	)
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		e := v.Cluster(t, 3, venue.Options{Tick: tick})
		leader, err := e.Leader()
		must(t, err)
		followers, err := e.Followers()
		must(t, err)
		witness := connect(t, v, 10*time.Second, []string{leader.Addr()})
		least := time.Hour
		for round := range 60 {
			follower := followers[round%len(followers)]
			conn := connect(t, v, timeout, []string{follower.Addr()})
			session, path := conn.Session(), test.Path(t)
			conn.KeepAlive(true)
			time.Sleep(timeout/2 + time.Duration(round)*23*time.Millisecond) // virtual
			must(t, errOf(conn.Client().Create(path, nil, zk.FlagEphemeral, open)))
			_, _, vanished, err := witness.Client().GetW(path)
			must(t, err)

			must(t, follower.Pause())
			deadline := conn.Deadline(session)
			time.Sleep(time.Until(deadline) - 1) // virtual: right before the deadline
			if !conn.Alive(session) {
				t.Error("dead before its deadline")
			}
			time.Sleep(time.Nanosecond) // virtual: right at it
			if conn.Alive(session) {
				t.Error("alive at its deadline")
			}
			if len(vanished) > 0 {
				t.Fatal("the node is gone, at the deadline")
			}
			<-vanished
			least = min(least, time.Since(deadline))

			must(t, follower.Resume())
			conn.Close()
			test.Eventually(t, 20*time.Second, "two followers again", func() bool {
				both, err := e.Followers()
				return err == nil && len(both) == 2
			})
		}
		t.Logf("dead %v before the node vanished, at the least", least)
	})
}
