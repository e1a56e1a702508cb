package zkclient

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// A create that the zk client has queued while it was disconnected is executed in the next session,
// without an error. Claim must not return its node.
func TestACreateCarriedIntoAnotherSessionIsNotOurs(t *testing.T) {
	for name, settle := range map[string]func(*line, *claimTry, <-chan answer[results]) error{
		"waited for": func(l *line, try *claimTry, call <-chan answer[results]) error {
			a := <-call
			if a.err != nil {
				return a.err
			}
			_, _, err := try.ours(l.sess, try.read(a.value.replies))
			return err
		},
		"given up": func(_ *line, try *claimTry, call <-chan answer[results]) error {
			try.cleanUp(call)
			return ErrOver
		},
	} {
		t.Run(name, func(t *testing.T) {
			withLine(t, 20*time.Second, func(t *testing.T, l *line) {
				try := newClaimTry(l.client, []Claim{l.want(2)})
				l.Refuse()
				test.Eventually(t, 10*time.Second, "the connection is down", func() bool { return l.conn.State() != zk.StateHasSession })
				// Claim itself waits for a connection. But a create that Claim sends at the moment
				// when the connection is lost is queued like this create.
				call := make(chan answer[results], 1)
				go func() {
					made, err := try.send()
					call <- answer[results]{made, err}
				}()
				l.v.Expire(t, l.conn)
				must(t, l.Accept())
				mustBe(t, result(t, 15*time.Second, "carried over", async(func() error { return settle(l, try, call) })), ErrOver)
				test.Eventually(t, 10*time.Second, "nodes were made and deleted", func() bool {
					return l.Seen(proxy.CreateOp) == 1 && l.Seen(proxy.DeleteOp) == 1
				})
				test.AssertEmpty(t, l.witness, l.dir)
				if now := l.newSession(t); now == l.sess {
					t.Error("the session is the same: nothing was carried over")
				}
			})
		})
	}
}

// A delete that is sent in the next session finds no node, because the end of the old session has
// deleted it.
func TestADeleteCarriedIntoAnotherSessionIsTheEndOfOurs(t *testing.T) {
	withLine(t, 20*time.Second, func(t *testing.T, l *line) {
		path := l.path(l.claim(t, 1)[0])
		l.Refuse()
		test.Eventually(t, 10*time.Second, "the connection is down", func() bool { return l.conn.State() != zk.StateHasSession })
		call := async(func() error { return l.conn.Delete(path, -1) }) // sent at the moment when the connection is lost
		l.v.Expire(t, l.conn)
		must(t, l.Accept())
		err := result(t, 15*time.Second, "carried over", call)
		mustBe(t, err, zk.ErrNoNode)
		now := l.newSession(t)
		mustBe(t, l.client.refusal(l.sess, err), ErrOver)
		mustBe(t, l.client.refusal(now, err), zk.ErrNoNode)
		mustBe(t, l.client.refusal(AnySession, err), zk.ErrNoNode)
		test.AssertEmpty(t, l.witness, l.dir)
	})
}
