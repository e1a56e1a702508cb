package session

import (
	"errors"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
)

// The reply of a create is lost, and the client comes back on another member of
// the ensemble, which may not know of it yet.
func TestAClaimIsFoundOnAnotherMember(t *testing.T) {
	t.Parallel()
	ensemble := zktest.Cluster(t, 3, zktest.Options{})
	followers, err := ensemble.Followers()
	must(t, err)
	l := newLineOn(t, zktest.Connect, 20*time.Second, followers[0].Addr())
	actions := []zktest.Action{zktest.CutAfterCommit, zktest.CutOnSend}
	for round := range 60 {
		next := followers[(round+1)%2]
		slow := round%6 == 5
		f := l.Next(zktest.CreateOp, actions[round/2%2])
		l.SetTarget(next.Addr())
		if slow { // stopped, so it has still to hear of the create when it goes on
			must(t, next.Pause())
		}
		type claimed struct {
			Claimed
			err error
		}
		done := make(chan claimed, 1)
		go func() {
			made, err := l.client.Claim(within(t, 20*time.Second), l.sess, l.want(1+round%3))
			done <- claimed{made, err}
		}()
		fired(t, f)
		if slow {
			must(t, next.Resume())
		}
		made := result(t, 20*time.Second, "claim", done)
		must(t, made.err)
		l.isTheLine(t, made.Claimed, 1+round%3)
		if err := result(t, 20*time.Second, "remove", l.client.Remove(l.sess, l.dir, made.Nodes)); err != nil {
			t.Fatal(err)
		}
		if len(l.children(t)) != 0 {
			t.Fatal(errors.New("a second node was made"))
		}
	}
	if l.conn.SessionID() != l.sess {
		t.Error("the session is another")
	}
}
