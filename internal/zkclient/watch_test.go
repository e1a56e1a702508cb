package zkclient

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

func (l *line) watch(t *testing.T, path string) *Watch {
	t.Helper()
	w, err := l.client.Watch(within(t, 20*time.Second), l.sess, path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// event waits for the event as a waiter does.
func event(t *testing.T, w *Watch) zk.Event {
	t.Helper()
	if !wire.Wait(within(t, 15*time.Second), nil, w) {
		t.Fatal("the watch has not fired")
	}
	e, _ := w.Fired()
	return e
}

// Callers that are canceled before and after the watch is set leave one watch, and no goroutine.
func TestCanceledWaitsLeaveOneWatch(t *testing.T) {
	withLine(t, 20*time.Second, func(t *testing.T, l *line) {
		path := l.path(l.claim(t, 1)[0])
		synctest.Wait() // goroutines that have begun may still be about to end
		before := test.Goroutines()
		hold := l.Next(proxy.ReadOp, proxy.HoldReply)
		for range 2 {
			ctx, cancel := context.WithCancel(context.Background())
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if w, err := l.client.Watch(ctx, l.sess, path); err == nil && wire.Wait(ctx, nil, w) {
						t.Error("the watch has fired")
					} else if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				})
			}
			fired(t, hold)
			synctest.Wait()
			cancel()
			all.Wait()
			hold.Release()
		}
		w := l.watch(t, path)
		if n, watches := l.Seen(proxy.ReadOp), l.v.Watched(t, l.sess); n != 1 || len(watches) != 1 {
			t.Errorf("%d reads, watches on %q", n, watches)
		}
		test.Eventually(t, 5*time.Second, "as many goroutines as before", func() bool { return test.Goroutines() <= before })
		must(t, l.witness.Client().Delete(path, -1))
		if e := event(t, w); !Gone(e) {
			t.Errorf("got %+v", e)
		}
	})
}

// When Replace replaces a node, a watch on the old node fires with a change, not with a deletion.
func TestAReplacedNodeIsNotADeletion(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		old := l.claim(t, 1)[0]
		w := l.watch(t, l.path(old))
		must(t, l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open))
		if e := event(t, w); e.Type != zk.EventNodeDataChanged || Gone(e) {
			t.Errorf("got %+v", e)
		}
	})
}

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
