package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// nodes creates n nodes and returns their paths.
func nodes(t *testing.T, conn *wire.Conn, n int) []string {
	t.Helper()
	dir := test.Path(t)
	must(t, errOf(conn.Client().Create(dir, nil, 0, open)))
	paths, creates := make([]string, n), make([]any, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/%s-%d", dir, strings.Repeat("long", 30), i)
		creates[i] = &zk.CreateRequest{Path: paths[i], Acl: open}
	}
	must(t, errOf(conn.Client().Multi(creates...)))
	return paths
}

// hears waits for the event of a watch on its own node.
func hears(t *testing.T, w *wire.Watch, want zk.EventType) {
	t.Helper()
	hearsOf(t, w, want, w.Path)
}

// hearsOf waits for the event of a watch on a node.
func hearsOf(t *testing.T, w *wire.Watch, want zk.EventType, path string) {
	t.Helper()
	test.Within(t, 20*time.Second, "an event", func() { wire.Wait(context.Background(), nil, w) })
	if e, _ := w.Fired(); e.Type != want || e.Path != path || (e.Err == zk.ErrConnectionClosed) != (want == zk.EventNotWatching) {
		t.Errorf("a watch on %s hears %+v, want %v of %s", w.Path, e, want, path)
	}
}

func silent(t *testing.T, watches ...*wire.Watch) {
	t.Helper()
	for i, w := range watches {
		if e, fired := w.Fired(); fired {
			t.Errorf("watch %d of %d has fired: %+v", i, len(watches), e)
		}
	}
}

// watch watches nodes.
func watch(t *testing.T, conn *wire.Conn, paths []string, marker string) []*wire.Watch {
	t.Helper()
	w, err := conn.WatchNodes(t.Context(), wire.AnySession, paths, marker)
	must(t, err)
	return w
}

func set(t *testing.T, conn *wire.Conn, path string) {
	t.Helper()
	must(t, errOf(conn.Client().Set(path, []byte("changed"), -1)))
}

// answered waits until the connection has received everything sent before.
func answered(t *testing.T, conn *wire.Conn) {
	t.Helper()
	must(t, errOf(conn.Client().Sync("/")))
}

func TestWatchNodes(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		paths := nodes(t, witness, 5)
		set(t, witness, paths[3])
		must(t, witness.Client().Delete(paths[4], -1))
		answered(t, conn)
		_, _, own, err := conn.Client().GetW(paths[1])
		must(t, err)

		before := p.Seen(proxy.AnyOp)
		w := watch(t, conn, paths, "")
		if n := p.Seen(proxy.AnyOp) - before; n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if w[4] != nil {
			t.Error("a watch on a node that does not exist")
		}
		silent(t, w[:4]...)

		must(t, witness.Client().Delete(paths[1], -1))
		hears(t, w[1], zk.EventNodeDeleted)
		if e := <-own; e.Type != zk.EventNodeDeleted || e.Path != paths[1] {
			t.Errorf("of a deletion the client's watch hears %+v", e)
		}
		set(t, witness, paths[2])
		hears(t, w[2], zk.EventNodeDataChanged)
		answered(t, conn)
		silent(t, w[0], w[3])

		conn.Close()
		for _, w := range []*wire.Watch{w[0], w[3]} {
			hears(t, w, zk.EventNotWatching)
		}
		if _, err := conn.WatchNodes(t.Context(), wire.AnySession, paths, ""); err != wire.ErrUnsent {
			t.Errorf("on a closed connection: %v", err)
		}
	})
}

// Waiters for the same nodes share their watches, also before the server has set them. One
// request is sent.
func TestWatchNodesTwice(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		paths := nodes(t, witness, 3)
		answered(t, conn)
		before := p.Seen(proxy.AnyOp)
		answer := p.Next(proxy.ReadOp, proxy.HoldReply)
		got := make(chan []*wire.Watch, 2)
		for range 2 {
			go func() {
				w, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[:2], "")
				ok(t, err)
				got <- w
			}()
		}
		test.Within(t, 20*time.Second, "the request", func() { <-answer.Fired() })
		answer.Release()
		first, second := <-got, <-got
		third := watch(t, conn, paths[1:], "")
		if again, err := conn.WatchNode(t.Context(), wire.AnySession, paths[0]); again != first[0] || err != nil {
			t.Errorf("WatchNode sets another watch: %v", err)
		}
		if n := p.Seen(proxy.AnyOp) - before; n != 2 {
			t.Errorf("%d requests, want one for two nodes and one for the third", n)
		}
		if t.Failed() || first[0] != second[0] || first[1] != second[1] || first[1] != third[0] || first[0] == first[1] {
			t.Fatalf("%p, %p, %p", first, second, third)
		}
		must(t, witness.Client().Delete(paths[1], -1))
		hears(t, first[1], zk.EventNodeDeleted)
		silent(t, first[0], third[1])
	})
}

// WatchData sets a watch with its read, and the next caller shares the watch. It is not set
// again after a reconnect. Other reads set no watch.
func TestWatchData(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		path := nodes(t, witness, 1)[0]
		set(t, witness, path)
		answered(t, conn)
		var watching atomic.Int32
		p.Where(func(r proxy.Request) bool {
			if r.Watch {
				watching.Add(1)
			}
			return false
		}, 1, proxy.HoldReply)
		// watch returns a watch after so many reads with a watch.
		watch := func(sets int32) *wire.Watch {
			t.Helper()
			_, _, err := conn.Client().Get(path)
			must(t, err)
			w, err := conn.WatchData(t.Context(), wire.AnySession, path)
			must(t, err)
			if again, err := conn.WatchNode(t.Context(), wire.AnySession, path); again != w || err != nil {
				t.Errorf("a second watch: %v", err)
			}
			if n := watching.Load(); n != sets {
				t.Errorf("%d reads with a watch, want %d", n, sets)
			}
			silent(t, w)
			return w
		}
		first := watch(1)
		if string(first.Data) != "changed" || first.Stat.Version != 1 || first.Path != path {
			t.Errorf("%+v", first)
		}
		if watch(1) != first {
			t.Error("a second watch")
		}
		first.Miss()
		hearsOf(t, first, 0, "")
		second := watch(2)
		set(t, witness, path)
		hears(t, second, zk.EventNodeDataChanged)
		third, epoch := watch(3), conn.Epoch()
		p.Cut()
		hears(t, third, zk.EventNotWatching)
		test.Eventually(t, 10*time.Second, "connected", func() bool { return conn.Epoch() != epoch })
		answered(t, conn)
		if n := p.Seen(proxy.WatchesOp); n != 0 {
			t.Errorf("the client has set watches again: %d requests", n)
		}
		must(t, witness.Client().Delete(path, -1))
		answered(t, conn)
		if _, err := conn.WatchData(t.Context(), wire.AnySession, path); err != zk.ErrNoNode {
			t.Errorf("of a node that does not exist: %v", err)
		}
		test.Eventually(t, 20*time.Second, "no watch is left", func() bool { return len(v.Watched(t, conn.Session())) == 0 })
	})
}

// More paths than fit into one request. If the connection ends between two requests, WatchNodes
// returns an error.
func TestWatchNodesOfThousands(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		paths := nodes(t, witness, 2000)
		answered(t, conn)
		before := p.Seen(proxy.AnyOp)
		w := watch(t, conn, paths, "")
		if n := p.Seen(proxy.AnyOp) - before; n < 2 || n > 5 {
			t.Errorf("%d requests for 300 kB", n)
		}
		for _, i := range []int{1999, 0, 1000} {
			must(t, witness.Client().Delete(paths[i], -1))
			hears(t, w[i], zk.EventNodeDeleted)
		}

		p.Cut()
		call(t, conn, 20*time.Second)
		f := p.Nth(proxy.ReadOp, 2, proxy.CutBefore)
		if _, err := conn.WatchNodes(t.Context(), wire.AnySession, paths, ""); !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("WatchNodes: %v", err)
		}
		<-f.Fired()
	})
}

// If the server refuses go-zookeeper's SetWatches after a reconnect, go-zookeeper sends it again
// soon, and the Conn stays connected. If the connection is lost, it sends it on the next connection.
// No change is missed.
func TestWatchesAreSetAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		action     proxy.Action
		reconnects uint64
	}{
		"throttled": {proxy.Answer(-127), 1}, "refused": {proxy.Answer(-6), 1}, "unanswered": {proxy.CutBefore, 3},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
				var events []<-chan zk.Event
				paths := nodes(t, witness, 3)
				for _, path := range paths {
					_, _, event, err := conn.Client().GetW(path)
					must(t, err)
					events = append(events, event)
				}
				twice, epoch := []*proxy.Fault{p.Next(proxy.WatchesOp, tc.action), p.Next(proxy.WatchesOp, tc.action)}, conn.Epoch()
				p.Refuse()
				set(t, witness, paths[0])
				must(t, witness.Client().Delete(paths[1], -1))
				must(t, p.Accept())
				for _, f := range twice {
					test.Within(t, 20*time.Second, "the fault", func() { <-f.Fired() })
				}
				set(t, witness, paths[2])
				for i, event := range events {
					test.Within(t, 20*time.Second, "an event", func() {
						if e := <-event; e.Type == zk.EventNotWatching || e.Path != paths[i] {
							t.Errorf("watch %d hears %+v", i, e)
						}
					})
				}
				if n := conn.Epoch() - epoch; n != tc.reconnects {
					t.Errorf("%d reconnects, want %d", n, tc.reconnects)
				}
			})
		})
	}
}

// If the server refuses to set watches, the caller receives the error, and no watch is left.
func TestWatchNodesRefused(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, _ *wire.Conn) {
		path := nodes(t, conn, 1)
		for code, want := range map[int32]error{-118: zk.ErrSessionMoved, -112: zk.ErrSessionExpired, -127: wire.Throttled} {
			before := p.Seen(proxy.ReadOp)
			p.Next(proxy.ReadOp, proxy.Answer(code))
			if _, err := conn.WatchNodes(t.Context(), wire.AnySession, path, ""); err != want {
				t.Errorf("code %d: error %v, want %v", code, err, want)
			}
			w := watch(t, conn, path, "")
			if p.Seen(proxy.ReadOp) == before {
				t.Errorf("code %d: the refused watch is used again", code)
			}
			w[0].Miss()
		}
	})
}

// Drop removes a watch for which no goroutine waits, also from the server, unless another watch on
// the node exists.
func TestADroppedWatch(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		conn, witness := connect(t, v, 20*time.Second, v.Servers(t)), v.Connect(t, 20*time.Second)
		path := nodes(t, witness, 1)[0]
		watched := func(want int) {
			t.Helper()
			synctest.Wait()
			mntr, err := v.Shared(t).Word("mntr") // counts watches on children, too
			must(t, err)
			if !strings.Contains(mntr, fmt.Sprintf("zk_watch_count\t%d\n", want)) {
				t.Errorf("the server does not have %d watches:\n%s", want, mntr)
			}
		}
		children := func(dir string) *wire.Watch {
			t.Helper()
			w, err := conn.WatchChildren(t.Context(), wire.AnySession, dir)
			must(t, err)
			return w
		}
		for _, dir := range []string{path, path + "-absent"} {
			w := children(dir)
			bell := wire.NewBell(w)
			if w.Drop() {
				t.Error("dropped a watch that a goroutine waits for")
			}
			watched(1)
			bell.Leave()
			for range 2 {
				if !w.Drop() {
					t.Error("not dropped")
				}
			}
			hearsOf(t, w, 0, "")
			watched(0)
		}

		w := children(path)
		other := watch(t, conn, []string{path}, "")
		w.Drop()
		watched(2) // the server's watch remains for the next waiter, while the node is watched
		w = children(path)
		must(t, errOf(witness.Client().Create(path+"/child", nil, 0, open)))
		hears(t, w, zk.EventNodeChildrenChanged)
		set(t, witness, path)
		hears(t, other[0], zk.EventNodeDataChanged)
		watched(0)
	})
}

// release deletes a node, and creates and deletes its marker.
func release(t *testing.T, conn *wire.Conn, path, marker string) {
	t.Helper()
	must(t, errOf(conn.Client().Multi(
		&zk.CreateRequest{Path: marker, Acl: open, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: marker, Version: -1},
		&zk.DeleteRequest{Path: path, Version: -1})))
}

func TestMarkers(t *testing.T) {
	for name, tc := range map[string]struct {
		goes         func(t *testing.T, witness *wire.Conn, path, marker string)
		want, others zk.EventType // others: who does not wait for that marker
	}{
		"with the marker": {release, zk.EventNodeCreated, zk.EventNodeDeleted},
		"without": {func(t *testing.T, witness *wire.Conn, path, _ string) { must(t, witness.Client().Delete(path, -1)) },
			zk.EventNodeDeleted, zk.EventNodeDeleted},
		"a change": {func(t *testing.T, witness *wire.Conn, path, _ string) { set(t, witness, path) },
			zk.EventNodeDataChanged, zk.EventNodeDataChanged},
		"another marker": {func(t *testing.T, witness *wire.Conn, path, marker string) { release(t, witness, path, marker+"2") },
			zk.EventNodeDeleted, zk.EventNodeDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
				answered(t, conn)
				paths := nodes(t, witness, 2)
				marker := paths[0] + "-marker"
				before := p.Seen(proxy.AnyOp)
				w := watch(t, conn, paths, marker)
				if n := p.Seen(proxy.AnyOp) - before; n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				same := watch(t, conn, paths[:1], marker)
				unmarked := watch(t, conn, paths[:1], "")
				foreign := watch(t, conn, paths[:1], marker+"3") // of waiters for other nodes of the line
				tc.goes(t, witness, paths[0], marker)
				if same[0] != w[0] {
					t.Error("two watches for one node and one marker")
				}
				if tc.want == zk.EventNodeCreated {
					hearsOf(t, w[0], tc.want, marker)
				} else {
					hears(t, w[0], tc.want)
				}
				hears(t, unmarked[0], tc.others)
				hears(t, foreign[0], tc.others)
				release(t, witness, paths[1], paths[1]+"-marker")
				hears(t, w[1], zk.EventNodeDeleted)
				// The watch on a marker that will not be created is removed.
				test.Eventually(t, 20*time.Second, "no watch is left", func() bool { return len(v.Watched(t, conn.Session())) == 0 })
			})
		})
	}
}

// For nodes that do not exist, and for nodes that are deleted without their markers, no watch is
// left, also if the server throttles the requests that remove them.
func TestMarkersThatNeverCome(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		answered(t, conn)
		throttled := []*proxy.Fault{p.Next(proxy.OtherOp, proxy.Answer(-127)), p.Next(proxy.OtherOp, proxy.Answer(-127))}
		for i, path := range nodes(t, witness, 20) {
			if i%2 == 0 {
				must(t, witness.Client().Delete(path, -1))
			}
			w := watch(t, conn, []string{path}, path+"-marker")
			if i%2 == 0 {
				if w[0] != nil {
					t.Fatal("a watch on a node that does not exist")
				}
				continue
			}
			must(t, witness.Client().Delete(path, -1))
			hears(t, w[0], zk.EventNodeDeleted)
		}
		for _, f := range throttled {
			test.Within(t, 20*time.Second, "the request is throttled", func() { <-f.Fired() })
		}
		test.Eventually(t, 20*time.Second, "no watch is left", func() bool { return len(v.Watched(t, conn.Session())) == 0 })
	})
}
