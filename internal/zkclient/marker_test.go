package zkclient

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/znode"
)

// removeWithMarker removes a node with a release marker, with a time limit.
func (l *line) removeWithMarker(t *testing.T, n znode.Node) (err error) {
	t.Helper()
	test.Within(t, 20*time.Second, "it is removed", func() {
		err = l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{n}, Marker: "-marker", ACL: open})
	})
	return err
}

// watchMarker sets a watch on a node and its release marker, from another process.
func (l *line) watchMarker(t *testing.T, n znode.Node) *Watch {
	t.Helper()
	other := Of(l.witness)
	w, err := other.WatchNodes(within(t, 20*time.Second), l.witness.Session(), "-marker", []string{l.path(n)})
	if err != nil {
		t.Fatal(err)
	}
	return w[0]
}

// If release markers would make the request larger than the server's limit, Remove omits them.
func TestRemoveMarkedLeavesOutWhatIsTooLarge(t *testing.T) {
	for name, c := range map[string]struct {
		longer int // bytes more in the name of the marker, which the request has twice
		marked bool
	}{
		"as large as it may be": {490_000, true},
		"larger":                {510_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				n := l.claim(t, 1)[0]
				marker := strings.Repeat("m", c.longer)
				w, err := Of(l.witness).WatchNodes(within(t, 20*time.Second), l.witness.Session(), marker, []string{l.path(n)})
				must(t, err)
				must(t, l.client.RemoveNow(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{n}, Marker: marker, ACL: open}))
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
