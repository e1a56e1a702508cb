package wire_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// A follower that is paused may not have reported its clients' last packets to the leader. The
// deadline must not count packets that only the follower has received.
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
			beats(t, conn, timeout/2+time.Duration(round)*23*time.Millisecond)
			least = min(least, deadBeforeExpiry(t, conn, witness, func() { must(t, follower.Pause()) }))
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
