package zkclient

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// A watch on a directory fires when the directory is created, and for its first and its last child.
// All callers share it.
func TestWatchChildren(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		dir := l.dir + "/below"
		watch := func() *Watch {
			t.Helper()
			w, err := l.client.WatchChildren(within(t, 20*time.Second), l.sess, dir)
			must(t, err)
			before := l.Seen(proxy.AnyOp)
			again, err := l.client.WatchChildren(within(t, 20*time.Second), l.sess, dir)
			must(t, err)
			if w != again || l.Seen(proxy.AnyOp) != before {
				t.Error("a second watch")
			}
			return w
		}
		create := func(path string) {
			t.Helper()
			_, err := l.witness.Client().Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			must(t, err)
		}
		for _, c := range []struct {
			change func()
			want   zk.EventType
		}{
			{func() { create(dir) }, zk.EventNodeCreated},
			{func() { create(dir + "/a") }, zk.EventNodeChildrenChanged},
			{func() { must(t, l.witness.Client().Delete(dir+"/a", -1)) }, zk.EventNodeChildrenChanged},
			{func() { must(t, l.witness.Client().Delete(dir, -1)) }, zk.EventNodeDeleted},
		} {
			w := watch()
			if e, fired := w.Fired(); fired {
				t.Errorf("a watch that was just set has fired: %+v", e)
			}
			c.change()
			if e := event(t, w); e.Type != c.want || e.Path != dir {
				t.Errorf("got %+v, want %v", e, c.want)
			}
		}
	})
}

// The directory is created between the two requests. The watch is on its children nevertheless.
func TestWatchChildrenOfADirectoryThatIsMadeMeanwhile(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		dir := l.dir + "/below"
		exists := l.Next(proxy.ExistsOp, proxy.HoldRequest)
		done := make(chan *Watch)
		go func() {
			w, err := l.client.WatchChildren(within(t, 20*time.Second), l.sess, dir)
			if err != nil {
				t.Error(err)
			}
			done <- w
		}()
		<-exists.Fired()
		_, err := l.witness.Client().Create(dir, nil, 0, zk.WorldACL(zk.PermAll))
		must(t, err)
		exists.Release()
		w := <-done
		_, err = l.witness.Client().Create(dir+"/a", nil, 0, zk.WorldACL(zk.PermAll))
		must(t, err)
		if e := event(t, w); e.Type != zk.EventNodeChildrenChanged {
			t.Errorf("got %+v", e)
		}
	})
}
