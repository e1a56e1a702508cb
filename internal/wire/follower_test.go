package wire_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
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

// beats sends heartbeats for a while, as the locks do.
func beats(t *testing.T, conn *wire.Conn, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); ; time.Sleep(50 * time.Millisecond) { // virtual: between two heartbeats
		_, err := conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
		must(t, err)
		if !time.Now().Before(end) {
			return
		}
	}
}

// deadBeforeExpiry calls off, after which conn receives nothing more from its server. It returns
// how long after the deadline the server deleted the session's nodes.
func deadBeforeExpiry(t *testing.T, conn, witness *wire.Conn, off func()) time.Duration {
	t.Helper()
	session, path := conn.SessionID(), test.Path(t)
	must(t, errOf(conn.Create(path, nil, zk.FlagEphemeral, open)))
	found, _, vanished, err := witness.ExistsW(path)
	if err != nil || !found {
		t.Fatalf("the node exists: %v, %v", found, err)
	}
	off()
	deadline := conn.Deadline(session)
	time.Sleep(time.Until(deadline) - 1) // virtual: right before the deadline
	if !conn.Alive(session) {
		t.Error("dead before its deadline")
	}
	time.Sleep(time.Nanosecond) // virtual: right at it
	if conn.Alive(session) {
		t.Error("alive at its deadline")
	}
	select {
	case <-vanished:
		t.Fatal("the node is gone, at the deadline")
	default:
	}
	<-vanished
	return time.Since(deadline)
}
