package zkclient

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

func TestRemoveSurvivesALostConnection(t *testing.T) {
	for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v, %d", action, nodes), func(t *testing.T) {
				t.Parallel()
				venue.InMemory(t, func(t *testing.T, v venue.Venue) {
					l := newLine(t, v, 10*time.Second)
					claimed := l.claim(t, nodes)
					f := l.Next(proxy.DeleteOp, action)
					must(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})))
					fired(t, f)
					if left := l.children(t); len(left) != 0 {
						t.Errorf("left: %q", left)
					}
				})
			})
		}
	}
}

func TestRemoveTellsThatANodeWasGone(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 10*time.Second)
		for missing := range 3 {
			for _, nodes := range []int{1, 3} {
				if missing >= nodes {
					continue
				}
				claimed := l.claim(t, nodes)
				must(t, l.witness.Delete(l.path(claimed[missing]), -1))
				mustBe(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})), zk.ErrNoNode)
				if left := l.children(t); len(left) != 0 {
					t.Errorf("%d of %d was gone, left: %q", missing, nodes, left)
				}
			}
		}
	})
}

// One of three nodes is gone, and the first delete of all nodes is lost. The second delete finds a
// node missing. That does not mean that the first delete succeeded.
func TestRemoveOfTheRestAfterALostRequest(t *testing.T) {
	for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
		t.Run(action.String(), func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				l := newLine(t, v, 10*time.Second)
				claimed := l.claim(t, 3)
				must(t, l.witness.Delete(l.path(claimed[1]), -1))
				f := l.Next(proxy.DeleteOp, action)
				mustBe(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})), zk.ErrNoNode)
				fired(t, f)
				if left := l.children(t); len(left) != 0 {
					t.Errorf("left: %q", left)
				}
			})
		})
	}
}

// One of three nodes is gone; the replies to the deletes of the other two are lost.
func TestRemoveOfTheRestSurvivesALostConnection(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 10*time.Second)
		claimed := l.claim(t, 3)
		must(t, l.witness.Delete(l.path(claimed[1]), -1))
		one := l.Nth(proxy.DeleteOp, 2, proxy.CutAfterCommit)
		two := l.Nth(proxy.DeleteOp, 4, proxy.CutBefore)
		mustBe(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})), zk.ErrNoNode)
		fired(t, one, two)
		if left := l.children(t); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// The first delete of all succeeds, and its reply is lost. The replies to the single deletes are
// lost, too. No other client has deleted a node.
func TestRemoveWhoseAnswersAreLostTwice(t *testing.T) {
	for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
		t.Run(action.String(), func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				l := newLine(t, v, 10*time.Second)
				claimed := l.claim(t, 3)
				all := l.Nth(proxy.DeleteOp, 1, proxy.CutAfterCommit)
				one := l.Nth(proxy.DeleteOp, 3, action) // the second is of all nodes again
				must(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})))
				fired(t, all, one)
				if left := l.children(t); len(left) != 0 {
					t.Errorf("left: %q", left)
				}
			})
		})
	}
}

func TestRemoveWaitsForTheConnection(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 20*time.Second)
		claimed := l.claim(t, 2)
		l.Refuse()
		removed := l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})
		select {
		case err := <-removed:
			t.Fatalf("removed without a connection: %v", err)
		default:
		}
		must(t, l.Accept())
		must(t, result(t, 10*time.Second, "remove", removed))
		if left := l.children(t); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
	})
}

func TestRemoveEndsWithTheSession(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 20*time.Second)
		claimed := l.claim(t, 2)
		l.Refuse()
		removed := l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})
		v.Expire(t, l.conn)
		must(t, l.Accept())
		mustBe(t, result(t, 10*time.Second, "remove", removed), ErrOver)
		mustBe(t, result(t, 10*time.Second, "a later remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})), ErrOver)
		test.AssertEmpty(t, l.witness, l.dir)
	})
}

// With AnySession a node is deleted in any session. The witness acts as the client in its next
// session.
func TestRemoveInAnySession(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 10*time.Second)
		claimed := l.claim(t, 2)
		must(t, result(t, 10*time.Second, "remove", Of(l.witness).Remove(AnySession, Removal{Dir: l.dir, Nodes: claimed})))
		must(t, result(t, 10*time.Second, "remove of nothing", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: nil})))
		if left := l.children(t); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// A directory whose sequence numbers are near the limit is deleted as soon as it is empty.
func TestRemoveGivesUpAWornDirectory(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 10*time.Second)
		worn := l.claim(t, 1)
		worn[0].Seq = 1 << 30 // the delete uses only the name
		other := l.claim(t, 1)
		must(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: worn})))
		test.Eventually(t, 5*time.Second, "the directory was asked for", func() bool { return l.Seen(proxy.DeleteOp) == 2 })
		if left := l.children(t); len(left) != 1 {
			t.Fatalf("left: %q", left)
		}
		other[0].Seq = 1 << 30
		must(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: other})))
		test.Eventually(t, 5*time.Second, "the directory is gone", func() bool {
			exists, _, err := l.witness.Exists(l.dir)
			return err == nil && !exists
		})
	})
}

// After a removal from two directories, the directory near the limit is deleted, whichever it is.
func TestRemoveGivesUpEachWornDirectory(t *testing.T) {
	for worn := range 2 {
		t.Run(fmt.Sprintf("directory %d", worn), func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				l := newLine(t, v, 10*time.Second)
				claims := []Claim{l.want(1), l.want(1)}
				claims[1].Dir += "-beside"
				_, err := l.witness.Create(claims[1].Dir, nil, 0, open)
				must(t, err)
				made, _, err := l.client.Claim(within(t, 20*time.Second), l.sess, claims...)
				must(t, err)
				made[worn].Nodes[0].Seq = 1 << 30 // the delete uses only the name
				must(t, l.client.RemoveNow(l.sess, Removal{Dir: claims[0].Dir, Nodes: made[0].Nodes}, Removal{Dir: claims[1].Dir, Nodes: made[1].Nodes}))
				for i, claim := range claims {
					exists, dir, err := l.witness.Exists(claim.Dir)
					must(t, err)
					if exists != (i != worn) || exists && dir.NumChildren != 0 {
						t.Errorf("directory %d: exists %v, %+v", i, exists, dir)
					}
				}
			})
		})
	}
}

// Without READ on its node the client cannot check the node. The server's refusal of the check
// means that the node exists.
func TestReplaceFindsOutWhatBecameOfIt(t *testing.T) {
	for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
		for rights, acl := range map[string][]zk.ACL{"all rights": open, "no READ": zk.WorldACL(zk.PermAll &^ zk.PermRead)} {
			t.Run(action.String()+", "+rights, func(t *testing.T) {
				t.Parallel()
				venue.Both(t, func(t *testing.T, v venue.Venue) {
					l := newLine(t, v, 10*time.Second)
					old := l.claim(t, 1)[0]
					next := old.As(znode.Read)
					f := l.Next(proxy.MoveOp, action)
					must(t, l.client.Replace(l.sess, l.dir, old, next, nil, acl))
					fired(t, f)
					if left := l.children(t); len(left) != 1 || left[0] != next.Name {
						t.Errorf("left: %q", left)
					}
				})
			})
		}
	}
}

func TestReplaceOfWhatIsGone(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 10*time.Second)
		old := l.claim(t, 1)[0]
		must(t, l.witness.Delete(l.path(old), -1))
		mustBe(t, l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open), zk.ErrNoNode)
		if left := l.children(t); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
		old = l.claim(t, 1)[0]
		v.Expire(t, l.conn)
		l.newSession(t)
		mustBe(t, l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open), ErrOver)
		test.AssertEmpty(t, l.witness, l.dir)
	})
}
