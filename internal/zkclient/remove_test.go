package zkclient

import (
	"fmt"
	"strings"
	"sync/atomic"
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
	cuts := []proxy.Action{throttled, proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit}
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
			row{name: "three with a marker, " + cut.String(), nodes: 3, faults: []fault{{1, cut}}, marker: "-marker"},
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
				w := l.watchMarker(t, nodes...)
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

// A worn directory in which another program has stored data is not deleted, also if it stores them
// between the check and the delete.
func TestRemoveKeepsAWornDirectoryWithData(t *testing.T) {
	for _, late := range []bool{false, true} {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			l := newLine(t, v, 10*time.Second)
			nodes := l.claim(t, 1)
			held := l.Where(func(r proxy.Request) bool { return late && r.Is(proxy.DeleteOp) && r.Paths[0] == l.dir }, 1, proxy.HoldRequest)
			nodes[0].Seq = 1 << 30 // the delete uses only the name
			store := func() { must(t, errOf(l.witness.Client().Set(l.dir, []byte("theirs"), -1))) }
			if !late {
				store()
			}
			removed := l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: nodes})
			if late {
				<-held.Fired()
				store()
				held.Release()
			}
			must(t, <-removed)
			if data, stat, err := l.witness.Client().Get(l.dir); err != nil || string(data) != "theirs" || stat.NumChildren != 0 {
				t.Errorf("%q, %+v, %v", data, stat, err)
			}
		})
	}
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
		l.Next(proxy.MoveOp, proxy.CutBefore)
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
// and on each new connection, until it succeeds. Of several nodes each is tried, and the refusal is
// the result also if one of them was gone.
func TestARefusedDeleteIsTriedAgain(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				var retried atomic.Int64
				client := l.client.Traced(func(op string, cause error) {
					if retried.Add(1); op != "delete" || cause != zk.ErrNoAuth {
						t.Errorf("%s is sent again: %v", op, cause)
					}
				})
				removals := []Removal{{Dir: l.dir, Nodes: l.claim(t, n)}}
				if n > 1 {
					gone := l.want(1)
					gone.Dir += "-gone"
					must(t, errOf(l.witness.Client().Create(gone.Dir, nil, 0, open)))
					made, err := claimOne(within(t, 20*time.Second), l.client, l.sess, gone)
					must(t, err)
					must(t, l.witness.Client().Delete(gone.Dir+"/"+made.Nodes[0].Name, -1))
					removals = []Removal{{Dir: gone.Dir, Nodes: made.Nodes}, removals[0]}
				}
				rights := func(perms int32) {
					_, err := l.witness.Client().SetACL(l.dir, zk.WorldACL(perms), -1)
					must(t, err)
				}
				rights(zk.PermAll &^ zk.PermDelete)
				mustBe(t, client.RemoveNow(l.sess, removals...), zk.ErrNoAuth)
				tries := []time.Duration{5, 10, 20, 40, 60, 60, 60}
				for _, pause := range tries {
					began, before := time.Now(), l.Seen(proxy.DeleteOp)
					for l.Seen(proxy.DeleteOp) == before && time.Since(began) < 2*time.Minute {
						time.Sleep(10 * time.Millisecond) // virtual
					}
					if took := time.Since(began).Round(time.Second); took != pause*time.Second {
						t.Fatalf("again after %v, want %d s", took, pause)
					}
					time.Sleep(time.Millisecond) // virtual: for the other nodes
				}
				if left := client.Undeleted(); len(left) != n || retried.Load() != int64(len(left)*len(tries)) {
					t.Errorf("the server refuses to delete %q, sent again %d times", left, retried.Load())
				}
				rights(zk.PermAll)
				l.Cut()
				time.Sleep(time.Second) // virtual: it reconnects
				l.empty(t)
				before := l.Seen(proxy.DeleteOp)
				time.Sleep(5 * time.Minute) // virtual
				if left := client.Undeleted(); len(left) > 0 || l.Seen(proxy.DeleteOp) != before {
					t.Errorf("a node that is gone is deleted again, left %q", left)
				}
			})
		})
	}
}

// removeWithMarker removes a node with a release marker, with a time limit.
func (l *line) removeWithMarker(t *testing.T, n znode.Node) (err error) {
	t.Helper()
	test.Within(t, 20*time.Second, "it is removed", func() {
		err = l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{n}, Marker: "-marker", ACL: open})
	})
	return err
}

// watchMarker watches nodes, and the release marker of the first, from another process. It returns
// the watch on the first.
func (l *line) watchMarker(t *testing.T, nodes ...znode.Node) *Watch {
	t.Helper()
	var paths []string
	for _, n := range nodes {
		paths = append(paths, l.path(n))
	}
	w, err := Of(l.witness).WatchNodes(within(t, 20*time.Second), l.witness.Session(), "-marker", paths)
	if err != nil {
		t.Fatal(err)
	}
	return w[0]
}

// If release markers would make the request larger than the server's limit, Remove omits them.
func TestRemoveMarkedLeavesOutWhatIsTooLarge(t *testing.T) {
	for name, c := range map[string]struct {
		longer int // bytes more in the name of the marker, which the request has twice
		acl    int // bytes of the ACL
		marked bool
	}{
		"as large as it may be": {490_000, 10, true},
		"larger":                {510_000, 10, false},
		"larger by the ACL":     {490_000, 20_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				n := l.claim(t, 1)[0]
				marker := strings.Repeat("m", c.longer)
				w, err := Of(l.witness).WatchNodes(within(t, 20*time.Second), l.witness.Session(), marker, []string{l.path(n)})
				must(t, err)
				must(t, l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{n}, Marker: marker, ACL: append(zk.DigestACL(zk.PermAll, strings.Repeat("u", c.acl), "p"), open...)}))
				if e := event(t, w[0]); Released(e) != c.marked || !Gone(e) {
					t.Errorf("the watch fires with %+v", e)
				}
				l.empty(t)
			})
		})
	}
}

// The node is deleted even if the server refuses the marker.
func TestRemoveMarkedWithoutTheRightTo(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		n := l.claim(t, 1)[0]
		w := l.watchMarker(t, n)
		_, err := l.witness.Client().SetACL(l.dir, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		must(t, err)
		must(t, l.removeWithMarker(t, n))
		if e := event(t, w); Released(e) || !Gone(e) {
			t.Errorf("the watch fires with %+v", e)
		}
	})
}

// The delete with the marker succeeds, its reply is lost, and the server refuses the next try.
// RemoveNow returns nil, because it has deleted the node.
func TestRemoveMarkedRefusedAfterALostReply(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		n := l.claim(t, 1)[0]
		lost, again := l.Next(proxy.DeleteOp, proxy.CutAfterCommit), l.Nth(proxy.DeleteOp, 2, proxy.HoldRequest)
		result := make(chan error, 1)
		go func() {
			result <- l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{n}, Marker: "-marker", ACL: open})
		}()
		fired(t, lost, again)
		_, err := l.witness.Client().SetACL(l.dir, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		must(t, err)
		again.Release()
		test.Within(t, 20*time.Second, "it is removed", func() { err = <-result })
		must(t, err)
	})
}
