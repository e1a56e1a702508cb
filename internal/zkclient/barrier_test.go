package zkclient

import (
	"fmt"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// The reply to the create is lost, and the client reconnects to another server, which has not
// applied the create yet. Without a barrier the search would find nothing, and the client would
// create a second node.
func TestAClaimIsFoundOnAnotherMember(t *testing.T) {
	for _, c := range []struct {
		delay   time.Duration
		actions []proxy.Action
	}{
		{200 * time.Millisecond, []proxy.Action{proxy.CutOnSend}}, // the client is connected again before the create is committed
		{0, []proxy.Action{proxy.CutOnSend, proxy.CutAfterCommit}},
	} {
		t.Run(fmt.Sprintf("commits take %v", c.delay), func(t *testing.T) {
			t.Parallel()
			venue.Both(t, func(t *testing.T, v venue.Venue) {
				ensemble := v.Cluster(t, 3, venue.Options{CommitDelay: c.delay})
				followers, err := ensemble.Followers()
				must(t, err)
				l := newLineAt(t, v, 20*time.Second, followers[0].Addr())
				rounds := 40
				if !v.Virtual() {
					rounds = 8 // to check that real members behave like those in memory
				}
				for round := range rounds {
					nodes := 1 + round%3
					l.SetTarget(followers[(round+1)%2].Addr())
					f := l.Next(proxy.CreateOp, c.actions[round/2%len(c.actions)])
					made, err := claimOne(within(t, 20*time.Second), l.client, l.sess, l.want(nodes))
					must(t, err)
					fired(t, f)
					// A busy member may have forwarded a create of the round before only now.
					test.Eventually(t, 20*time.Second, "only this claim", func() bool { return len(l.children(t)) == nodes })
					l.isTheLine(t, made, nodes)
					must(t, result(t, 20*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: made.Nodes})))
					test.Eventually(t, 20*time.Second, "nothing", func() bool { return len(l.children(t)) == 0 })
				}
				if l.conn.Session() != l.sess {
					t.Error("the session is another")
				}
			})
		})
	}
}

// A server reads the transaction of a Replace and does not forward it until the session has moved
// to another server, which has dropped a second one, and has come back. Then the leader executes
// the first, and refuses the third, because the old node is gone.
func TestAReplaceThatAServerForwardsMuchLaterSucceeds(t *testing.T) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		followers, err := v.Cluster(t, 3, venue.Options{}).Followers()
		must(t, err)
		l := newLineAt(t, v, 20*time.Second, followers[0].Addr())
		old := l.claim(t, 1)[0]
		flow := followers[0].(interface{ Stall() (flow func()) }).Stall()
		l.SetTarget(followers[1].Addr())
		first, second := l.Next(proxy.MoveOp, proxy.CutOnSend), l.Next(proxy.MoveOp, throttled)
		replaced := async(func() error { return l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open) })
		fired(t, first, second)
		before := l.Seen(proxy.MoveOp)
		l.SetTarget(followers[0].Addr())
		l.Cut()
		test.Eventually(t, 10*time.Second, "the third is sent", func() bool { return l.Seen(proxy.MoveOp) > before })
		flow()
		must(t, result(t, 10*time.Second, "replace", replaced))
		if left := l.children(t); len(left) != 1 || left[0] != old.As(znode.Read).Name {
			t.Errorf("left: %q", left)
		}
	})
}

// A server reads a create and does not forward it until the session has moved to another server,
// which has executed a second create, and has come back. Then the leader executes the first.
func TestACreateThatAServerForwardsMuchLaterLeavesNoNode(t *testing.T) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		followers, err := v.Cluster(t, 3, venue.Options{}).Followers()
		must(t, err)
		l := newLineAt(t, v, 20*time.Second, followers[0].Addr())
		flow := followers[0].(interface{ Stall() (flow func()) }).Stall()
		l.SetTarget(followers[1].Addr())
		f := l.Next(proxy.CreateOp, proxy.CutOnSend)
		made := l.claim(t, 2)
		fired(t, f)
		l.SetTarget(followers[0].Addr())
		l.Cut()
		test.Eventually(t, 10*time.Second, "the session is back", func() bool { return l.conn.Server() == l.Addr() && l.Seen(proxy.ConnectOp) == 3 })
		flow()
		test.Eventually(t, 10*time.Second, "only the second claim is left", func() bool { return len(l.children(t)) == 2 })
		l.isTheLine(t, Claimed{Nodes: made}, 2)
	})
}
