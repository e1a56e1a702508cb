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
// client has deleted one of them before. A watch fires by the release marker only if Remove has
// deleted the node.
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
		marker string
	}
	rows := []row{
		{name: "one, gone", nodes: 1, gone: []int{0}, want: zk.ErrNoNode},
		{name: "one with a marker, gone", nodes: 1, gone: []int{0}, want: zk.ErrNoNode, marker: "-marker"},
		{name: "three, the first gone", nodes: 3, gone: []int{0}, want: zk.ErrNoNode},
		{name: "three, the last gone", nodes: 3, gone: []int{2}, want: zk.ErrNoNode},
		{name: "three, one gone, the replies to the deletes of the others lost", nodes: 3, gone: []int{1},
			faults: []fault{{2, proxy.CutAfterCommit}, {4, proxy.CutBefore}}, want: zk.ErrNoNode},
	}
	for _, cut := range cuts {
		rows = append(rows,
			row{name: "one, " + cut.String(), nodes: 1, faults: []fault{{1, cut}}},
			row{name: "one with a marker, " + cut.String(), nodes: 1, faults: []fault{{1, cut}}, marker: "-marker"},
			row{name: "three, " + cut.String(), nodes: 3, faults: []fault{{1, cut}}},
			// The second delete finds a node missing. That does not mean that the first succeeded.
			row{name: "three, one gone, " + cut.String(), nodes: 3, gone: []int{1}, faults: []fault{{1, cut}}, want: zk.ErrNoNode},
			// The second delete is of all nodes again, the third of one.
			row{name: "three, cut after commit, then " + cut.String(), nodes: 3, faults: []fault{{1, proxy.CutAfterCommit}, {3, cut}}})
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				nodes := l.claim(t, c.nodes)
				w := l.watchMarker(t, nodes[0])
				for _, i := range c.gone {
					must(t, l.witness.Client().Delete(l.path(nodes[i]), -1))
				}
				var faults []*proxy.Fault
				for _, f := range c.faults {
					faults = append(faults, l.Nth(proxy.DeleteOp, f.nth, f.action))
				}
				err := result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: nodes, Marker: c.marker, ACL: open}))
				if err != c.want {
					t.Errorf("got %v, want %v", err, c.want)
				}
				fired(t, faults...)
				if e := event(t, w); !Gone(e) || Released(e) != (c.marker != "" && c.want == nil) {
					t.Errorf("a watch on the first node and its marker fires with %+v", e)
				}
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
		test.AssertEmpty(t, l.witness.Client(), l.dir)
	})
}

// A worn directory in which another program has stored data is not deleted.
func TestRemoveKeepsAWornDirectoryWithData(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		nodes := l.claim(t, 1)
		_, err := l.witness.Client().Set(l.dir, []byte("theirs"), -1)
		must(t, err)
		nodes[0].Seq = 1 << 30 // the delete uses only the name
		must(t, l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: nodes}))
		if data, stat, err := l.witness.Client().Get(l.dir); err != nil || string(data) != "theirs" || stat.NumChildren != 0 {
			t.Errorf("%q, %+v, %v", data, stat, err)
		}
	})
}

// A directory whose sequence numbers are near the limit is deleted as soon as it is empty, also
// after a removal from several directories.
func TestRemoveGivesUpAWornDirectory(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		beside := l.want(1)
		beside.Dir += "-beside"
		_, err := l.witness.Client().Create(beside.Dir, nil, 0, open)
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
			exists, stat, err := l.witness.Client().Exists(dir)
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
		must(t, l.witness.Client().Delete(l.path(old), -1))
		mustBe(t, l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open), zk.ErrNoNode)
		l.empty(t)
		old = l.claim(t, 1)[0]
		l.v.Expire(t, l.conn)
		l.newSession(t)
		mustBe(t, l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open), ErrOver)
		test.AssertEmpty(t, l.witness.Client(), l.dir)
	})
}

// A delete that the server refuses is tried again after 5 s, twice that, and so on up to a minute,
// until it succeeds.
func TestARefusedDeleteIsTriedAgain(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		nodes := l.claim(t, 1)
		rights := func(perms int32) {
			_, err := l.witness.Client().SetACL(l.dir, zk.WorldACL(perms), -1)
			must(t, err)
		}
		rights(zk.PermAll &^ zk.PermDelete)
		mustBe(t, l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: nodes}), zk.ErrNoAuth)
		for _, pause := range []time.Duration{5, 10, 20, 40, 60, 60, 60} {
			began, before := time.Now(), l.Seen(proxy.DeleteOp)
			for l.Seen(proxy.DeleteOp) == before {
				time.Sleep(10 * time.Millisecond) // virtual
			}
			if took := time.Since(began).Round(time.Second); took != pause*time.Second {
				t.Fatalf("again after %v, want %d s", took, pause)
			}
		}
		rights(zk.PermAll)
		time.Sleep(time.Minute + time.Second) // virtual
		l.empty(t)
		before := l.Seen(proxy.DeleteOp)
		time.Sleep(5 * time.Minute) // virtual
		if l.Seen(proxy.DeleteOp) != before {
			t.Error("a node that is gone is deleted again")
		}
	})
}
