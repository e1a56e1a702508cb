package zkconn_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/link"
	"github.com/zklocks/zklocks/internal/zktest"
)

// A follower that freezes takes with it what it has not told the leader about its clients. The deadline must not count
// packets that only it has seen.
func TestDeadlineOnFrozenFollower(t *testing.T) {
	const (
		tick    = 300 * time.Millisecond
		timeout = 4 * tick
	)
	e := zktest.Cluster(t, 3, zktest.Options{Tick: tick})
	leader, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	followers, err := e.Followers()
	if err != nil {
		t.Fatal(err)
	}
	witness := connect(t, 10*time.Second, []string{leader.Addr()})
	for round := range 5 {
		follower := followers[round%len(followers)]
		conn := connect(t, timeout, []string{follower.Addr()})
		l, session := link.Of(conn), conn.SessionID()
		path := zktest.Path(t)
		if _, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(timeout/2 + time.Duration(round)*70*time.Millisecond)
		zktest.Eventually(t, 10*time.Second, "heartbeats", func() bool {
			sent := time.Now()
			if _, err := conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}); err == nil {
				l.Proved(session, sent)
			}
			return time.Now().After(end)
		})
		_, _, vanished, err := witness.ExistsW(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := follower.Pause(); err != nil {
			t.Fatal(err)
		}
		for l.Alive(session) {
			select {
			case <-vanished:
				t.Fatalf("round %d: the node is gone, and the session still alive, deadline in %v", round, time.Until(l.Deadline(session)))
			default:
			}
		}
		dead := time.Now()
		<-vanished
		t.Logf("round %d: dead %v before the node vanished", round, time.Since(dead))
		conn.Close()
		if err := follower.Resume(); err != nil {
			t.Fatal(err)
		}
		zktest.Eventually(t, 20*time.Second, "two followers again", func() bool {
			both, err := e.Followers()
			return err == nil && len(both) == 2
		})
	}
}
