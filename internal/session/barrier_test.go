package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
)

// The create is lost sight of, and the client comes back on another member of
// the ensemble, which does not know of it yet: who lists there without a barrier
// finds nothing, and makes a second node.
func TestAClaimIsFoundOnAnotherMember(t *testing.T) {
	for _, c := range []struct {
		delay   time.Duration // of what a member writes to its log, and so of each commit
		rounds  int
		actions []zktest.Action
	}{
		{200 * time.Millisecond, 8, []zktest.Action{zktest.CutOnSend}}, // back before it is committed
		{0, 60, []zktest.Action{zktest.CutOnSend, zktest.CutAfterCommit}},
	} {
		t.Run(fmt.Sprintf("commits take %v", c.delay), func(t *testing.T) {
			t.Parallel()
			ensemble := zktest.Cluster(t, 3, zktest.Options{
				JVM: []string{fmt.Sprintf("-Dzookeeper.flushDelay=%d", c.delay.Milliseconds())},
			})
			followers, err := ensemble.Followers()
			must(t, err)
			l := newLineOn(t, zktest.Connect, 20*time.Second, followers[0].Addr())
			for round := range c.rounds {
				nodes := 1 + round%3
				l.SetTarget(followers[(round+1)%2].Addr())
				f := l.Next(zktest.CreateOp, c.actions[round/2%len(c.actions)])
				made, err := l.client.Claim(within(t, 20*time.Second), l.sess, l.want(nodes))
				must(t, err)
				fired(t, f)
				l.isTheLine(t, made, nodes)
				must(t, result(t, 20*time.Second, "remove", l.client.Remove(l.sess, l.dir, made.Nodes)))
				if left := l.children(t); len(left) != 0 {
					t.Fatalf("left: %q", left)
				}
			}
			if l.conn.SessionID() != l.sess {
				t.Error("the session is another")
			}
		})
	}
}
