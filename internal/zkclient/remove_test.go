package zkclient

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// Remove deletes all nodes, whichever requests and replies are lost, and says whether another
// client has deleted one of them before.
func TestRemoveSurvivesALostConnection(t *testing.T) {
	type fault struct {
		nth    int // delete
		action proxy.Action
	}
	cuts := []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit}
	type row struct {
		name   string
		nodes  int
		gone   []int // deleted by another client before
		faults []fault
		want   error
	}
	rows := []row{
		{"none", 0, nil, nil, nil},
		{"one, gone", 1, []int{0}, nil, zk.ErrNoNode},
		{"three, the first gone", 3, []int{0}, nil, zk.ErrNoNode},
		{"three, the last gone", 3, []int{2}, nil, zk.ErrNoNode},
		{"three, one gone, the replies to the deletes of the others lost", 3, []int{1},
			[]fault{{2, proxy.CutAfterCommit}, {4, proxy.CutBefore}}, zk.ErrNoNode},
	}
	for _, cut := range cuts {
		rows = append(rows,
			row{"one, " + cut.String(), 1, nil, []fault{{1, cut}}, nil},
			row{"three, " + cut.String(), 3, nil, []fault{{1, cut}}, nil},
			// The second delete finds a node missing. That does not mean that the first succeeded.
			row{"three, one gone, " + cut.String(), 3, []int{1}, []fault{{1, cut}}, zk.ErrNoNode},
			// The second delete is of all nodes again, the third of one.
			row{"three, cut after commit, then " + cut.String(), 3, nil, []fault{{1, proxy.CutAfterCommit}, {3, cut}}, nil})
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				var nodes []znode.Node
				if c.nodes > 0 {
					nodes = l.claim(t, c.nodes)
				}
				for _, i := range c.gone {
					must(t, l.witness.Delete(l.path(nodes[i]), -1))
				}
				var faults []*proxy.Fault
				for _, f := range c.faults {
					faults = append(faults, l.Nth(proxy.DeleteOp, f.nth, f.action))
				}
				err := result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: nodes}))
				if err != c.want {
					t.Errorf("got %v, want %v", err, c.want)
				}
				fired(t, faults...)
				l.empty(t)
			})
		})
	}
}

func TestRemoveEndsWithTheSession(t *testing.T) {
	withLine(t, 20*time.Second, func(t *testing.T, l *line) {
		claimed := l.claim(t, 2)
		l.Refuse()
		removed := l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})
		l.v.Expire(t, l.conn)
		must(t, l.Accept())
		mustBe(t, result(t, 10*time.Second, "remove", removed), ErrOver)
		mustBe(t, result(t, 10*time.Second, "a later remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed})), ErrOver)
		test.AssertEmpty(t, l.witness, l.dir)
	})
}

// A directory whose sequence numbers are near the limit is deleted as soon as it is empty, also
// after a removal from several directories.
func TestRemoveGivesUpAWornDirectory(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		beside := l.want(1)
		beside.Dir += "-beside"
		_, err := l.witness.Create(beside.Dir, nil, 0, open)
		must(t, err)
		stays := l.claim(t, 1)
		made, _, err := l.client.Claim(within(t, 20*time.Second), l.sess, beside, l.want(1))
		must(t, err)
		remove := func(removals ...Removal) {
			t.Helper()
			for _, r := range removals {
				r.Nodes[0].Seq = 1 << 30 // the delete uses only the name
			}
			must(t, l.client.RemoveNow(l.sess, removals...))
		}
		children := func(dir string, want int32) {
			t.Helper()
			children := int32(-1)
			exists, stat, err := l.witness.Exists(dir)
			must(t, err)
			if exists {
				children = stat.NumChildren
			}
			if children != want {
				t.Errorf("%s has %d children, want %d (-1: it does not exist)", dir, children, want)
			}
		}
		remove(Removal{Dir: beside.Dir, Nodes: made[0].Nodes}, Removal{Dir: l.dir, Nodes: made[1].Nodes})
		children(beside.Dir, -1)
		children(l.dir, 1)
		remove(Removal{Dir: l.dir, Nodes: stays})
		children(l.dir, -1)
	})
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
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		old := l.claim(t, 1)[0]
		must(t, l.witness.Delete(l.path(old), -1))
		mustBe(t, l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open), zk.ErrNoNode)
		l.empty(t)
		old = l.claim(t, 1)[0]
		l.v.Expire(t, l.conn)
		l.newSession(t)
		mustBe(t, l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open), ErrOver)
		test.AssertEmpty(t, l.witness, l.dir)
	})
}
