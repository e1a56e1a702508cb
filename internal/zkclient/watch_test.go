package zkclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
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

func watchCount(t *testing.T, server venue.Server, want int) {
	t.Helper()
	mntr, err := server.Word("mntr")
	must(t, err)
	if has := fmt.Sprintf("zk_watch_count\t%d\n", want); !strings.Contains(mntr, has) {
		t.Errorf("the server does not say %q:\n%s", has, mntr)
	}
}

func TestAThousandCanceledWaitsLeaveOneWatch(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Standalone(t, venue.Options{})
		l := newLineAt(t, v, 20*time.Second, server.Addr())
		node := l.claim(t, 1)[0]
		synctest.Wait() // goroutines that have begun may still be about to end
		before := test.Goroutines()
		hold := l.Next(proxy.ReadOp, proxy.HoldReply)
		for round := range 10 {
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					w, err := l.client.Watch(ctx, l.sess, l.path(node))
					if err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					if wire.Wait(ctx, nil, w) {
						t.Error("the watch has fired")
					}
				})
			}
			fired(t, hold) // the first hundred callers are canceled before the watch is set
			cancel()
			wg.Wait()
			if round == 0 {
				hold.Release()
			}
		}
		w := l.watch(t, l.path(node))
		if n := l.Seen(proxy.ReadOp); n != 1 {
			t.Errorf("%d reads", n)
		}
		watchCount(t, server, 1)
		test.Eventually(t, 5*time.Second, "as many goroutines as before", func() bool { return test.Goroutines() <= before })
		must(t, l.witness.Client().Delete(l.path(node), -1))
		if e := event(t, w); !Gone(e) {
			t.Errorf("got %+v", e)
		}
		watchCount(t, server, 0)
	})
}

// The end of a session means nothing for a node. A watch of the old session is not used in the new
// session.
func TestTheEndOfASessionIsNoDeletion(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		own, stays := l.watch(t, l.path(l.claim(t, 1)[0])), l.watch(t, l.dir)
		l.v.Expire(t, l.conn)
		for _, w := range []*Watch{own, stays} {
			// The server may report the deletion before the connection is cut.
			if e := event(t, w); e.Type != zk.EventNotWatching && (w != own || !Gone(e)) {
				t.Errorf("got %+v", e)
			} else if e.Type == zk.EventNotWatching && Gone(e) {
				t.Errorf("%+v is taken for a deletion", e)
			}
		}
		now := l.newSession(t)
		_, err := l.client.Watch(within(t, 10*time.Second), l.sess, l.dir)
		mustBe(t, err, ErrOver)
		again, err := l.client.Watch(within(t, 10*time.Second), now, l.dir)
		must(t, err)
		if again == stays {
			t.Error("a watch of the last session serves the next")
		}
	})
}

// When Replace replaces a node, a watch on the old node fires with a change, not with a deletion.
func TestWatchesAreOfFullNames(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		old := l.claim(t, 1)[0]
		next := old.As(znode.Read)
		w := l.watch(t, l.path(old))
		must(t, l.client.Replace(l.sess, l.dir, old, next, nil, open))
		if e := event(t, w); e.Type != zk.EventNodeDataChanged {
			t.Errorf("got %+v", e)
		}
		w = l.watch(t, l.path(next))
		if w.Stat.EphemeralOwner != l.sess {
			t.Errorf("%+v", w.Stat)
		}
		l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: []znode.Node{next}})
		if e := event(t, w); !Gone(e) {
			t.Errorf("got %+v", e)
		}
	})
}

// A watch ends with its connection and wakes its waiters at once. The next caller receives a watch
// on the current connection.
func TestAWatchOfBeforeTheReconnectIsNotShared(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		old := l.watch(t, l.dir)
		before := l.client.Epoch()
		if l.watch(t, l.dir) != old {
			t.Fatal("not shared without a reconnect")
		}
		l.Refuse()
		if e := event(t, old); e.Type != zk.EventNotWatching || Gone(e) || l.client.Epoch() != before {
			t.Errorf("got %+v", e)
		}
		must(t, l.Accept())
		next := l.watch(t, l.dir)
		if next == old || l.client.Epoch() == before {
			t.Error("shared across a reconnect")
		}
		if l.watch(t, l.dir) != next {
			t.Error("the next one is not shared")
		}
		_, err := l.witness.Client().Set(l.dir, nil, -1)
		must(t, err)
		if e := event(t, next); e.Type != zk.EventNodeDataChanged {
			t.Errorf("got %+v", e)
		}
		if n := l.Seen(proxy.WatchesOp); n != 0 {
			t.Errorf("the zk client has set watches of its own again: %d requests", n)
		}
	})
}
