package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	_, err := conn.Client().Multi(creates...)
	must(t, err)
	return paths
}

// hears waits for the event of a watch.
func hears(t *testing.T, w *wire.Watch) zk.Event {
	t.Helper()
	test.Within(t, 20*time.Second, "an event", func() { wire.Wait(context.Background(), nil, w) })
	e, _ := w.Fired()
	return e
}

func silent(t *testing.T, watches ...*wire.Watch) {
	t.Helper()
	for i, w := range watches {
		if e, fired := w.Fired(); fired {
			t.Errorf("watch %d of %d has fired: %+v", i, len(watches), e)
		}
	}
}

func set(t *testing.T, conn *wire.Conn, path string) {
	t.Helper()
	_, err := conn.Client().Set(path, []byte("changed"), -1)
	must(t, err)
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
		w, err := conn.WatchNodes(t.Context(), wire.AnySession, paths, "")
		must(t, err)
		if n := p.Seen(proxy.AnyOp) - before; n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if w[4] != nil {
			t.Error("a watch on a node that does not exist")
		}
		silent(t, w[:4]...)

		must(t, witness.Client().Delete(paths[1], -1))
		if e := hears(t, w[1]); e.Type != zk.EventNodeDeleted || e.Path != paths[1] {
			t.Errorf("of a deletion a watch hears %+v", e)
		}
		if e := <-own; e.Type != zk.EventNodeDeleted || e.Path != paths[1] {
			t.Errorf("of a deletion the client's watch hears %+v", e)
		}
		set(t, witness, paths[2])
		if e := hears(t, w[2]); e.Type != zk.EventNodeDataChanged {
			t.Errorf("of a change a watch hears %+v", e)
		}
		answered(t, conn)
		silent(t, w[0], w[3])

		conn.Close()
		for _, w := range []*wire.Watch{w[0], w[3]} {
			if e := hears(t, w); e.Type != zk.EventNotWatching {
				t.Errorf("of the end of its connection a watch hears %+v", e)
			}
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
				if err != nil {
					t.Error(err)
				}
				got <- w
			}()
		}
		test.Within(t, 20*time.Second, "the request", func() { <-answer.Fired() })
		answer.Release()
		first, second := <-got, <-got
		third, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[1:], "")
		must(t, err)
		if n := p.Seen(proxy.AnyOp) - before; n != 2 {
			t.Errorf("%d requests, want one for two nodes and one for the third", n)
		}
		if t.Failed() || first[0] != second[0] || first[1] != second[1] || first[1] != third[0] || first[0] == first[1] {
			t.Fatalf("%p, %p, %p", first, second, third)
		}
		must(t, witness.Client().Delete(paths[1], -1))
		if e := hears(t, first[1]); e.Type != zk.EventNodeDeleted || e.Path != paths[1] {
			t.Errorf("hears %+v", e)
		}
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
		if e := hears(t, first); e.Type != 0 {
			t.Errorf("a missed event: %+v", e)
		}
		second := watch(2)
		set(t, witness, path)
		if e := hears(t, second); e.Type != zk.EventNodeDataChanged || e.Path != path {
			t.Errorf("of a change it hears %+v", e)
		}
		third, epoch := watch(3), conn.Epoch()
		p.Cut()
		if e := hears(t, third); e.Type != zk.EventNotWatching {
			t.Errorf("of the end of its connection it hears %+v", e)
		}
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
		w, err := conn.WatchNodes(t.Context(), wire.AnySession, paths, "")
		must(t, err)
		if n := p.Seen(proxy.AnyOp) - before; n < 2 || n > 5 {
			t.Errorf("%d requests for 300 kB", n)
		}
		for _, i := range []int{1999, 0, 1000} {
			must(t, witness.Client().Delete(paths[i], -1))
			if e := hears(t, w[i]); e.Type != zk.EventNodeDeleted || e.Path != paths[i] {
				t.Errorf("watch %d hears %+v", i, e)
			}
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

// If the connection ends, WatchNodes returns an error. Each watch ends before the next connection
// can deliver an event.
func TestWatchNodesAndTheConnectionEnds(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		paths := nodes(t, witness, 3)
		answered(t, conn)
		for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutAfterCommit} {
			early, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[:2], "")
			must(t, err)
			epoch := conn.Epoch()
			cut := p.Next(proxy.ReadOp, action)
			if _, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[2:], ""); !errors.Is(err, zk.ErrConnectionClosed) {
				t.Errorf("WatchNodes: %v", err)
			}
			test.Within(t, 10*time.Second, "the cut", func() { <-cut.Fired() })
			for _, w := range early {
				if e := hears(t, w); e.Type != zk.EventNotWatching || !errors.Is(e.Err, zk.ErrConnectionClosed) {
					t.Errorf("hears %+v", e)
				}
			}
			test.Eventually(t, 10*time.Second, "connected", func() bool { return conn.Epoch() != epoch })
		}
		answered(t, conn)
		late, err := conn.WatchNodes(t.Context(), wire.AnySession, paths, "")
		must(t, err)
		must(t, witness.Client().Delete(paths[0], -1))
		if e := hears(t, late[0]); e.Type != zk.EventNodeDeleted {
			t.Errorf("after the reconnect a watch hears %+v", e)
		}
		silent(t, late[1:]...)
	})
}

// Some servers refuse all requests without credentials. So the credentials are the first packets on
// each connection, also if WatchNodes is called at once. The client may not read the root: for
// Connect and WatchNodes that refusal is an answer.
func TestWatchNodesWaitsForTheCredentials(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Standalone(t, venue.Options{}).Addr()
		witness := connect(t, v, 20*time.Second, []string{server}, wire.WithDigestAuth("root", "secret"))
		must(t, errOf(witness.Client().Create("/ann", nil, 0, open)))
		_, err := witness.Client().SetACL("/", append(zk.DigestACL(zk.PermAll, "root", "secret"), zk.WorldACL(zk.PermCreate)...), -1)
		must(t, err)
		p := v.Proxy(t, server)
		conn := connect(t, v, 20*time.Second, []string{p.Addr()}, wire.WithDigestAuth("ann", "secret"))
		must(t, errOf(conn.Client().Create("/ann/a", nil, 0, zk.AuthACL(zk.PermAll))))
		var mu sync.Mutex
		var asked []proxy.Op // on the current connection
		p.OnRequest(func(op proxy.Op) {
			mu.Lock()
			defer mu.Unlock()
			if op == proxy.ConnectOp {
				asked = nil
			}
			asked = append(asked, op)
		})
		for range 20 {
			epoch, changed := conn.Epoch(), conn.Changed()
			p.Cut()
			for conn.Epoch() == epoch {
				<-changed
				changed = conn.Changed()
			}
			_, err = conn.WatchNodes(t.Context(), wire.AnySession, []string{"/ann/a"}, "")
			must(t, err)
			mu.Lock()
			if len(asked) < 2 || asked[0] != proxy.ConnectOp || asked[1] != proxy.AuthOp {
				t.Errorf("a new connection begins with %v", asked)
			}
			mu.Unlock()
		}
	})
}

// If the server refuses go-zookeeper's SetWatches after a reconnect, drops it or does not answer,
// the connection ends, and go-zookeeper sends the request again on the next connection. No change
// is missed.
func TestWatchesAreSetAgain(t *testing.T) {
	for name, action := range map[string]proxy.Action{
		"throttled": proxy.Answer(-127), "refused": proxy.Answer(-6), "unanswered": proxy.CutBefore,
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
				twice := []*proxy.Fault{p.Next(proxy.WatchesOp, action), p.Next(proxy.WatchesOp, action)}
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
			w, err := conn.WatchNodes(t.Context(), wire.AnySession, path, "")
			must(t, err)
			if p.Seen(proxy.ReadOp) == before {
				t.Errorf("code %d: the refused watch is used again", code)
			}
			w[0].Miss()
		}
	})
}

// Of two requests that are under way, each receives its own answer.
func TestTwoWatchNodesAtOnce(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, _ *wire.Conn) {
		paths := nodes(t, conn, 2)
		v.Latency(time.Millisecond) // the second request is sent before the first is answered
		p.Nth(proxy.ReadOp, 2, proxy.Answer(-127))
		first := make(chan *wire.Watch, 1)
		go func() {
			defer close(first)
			if w, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[:1], ""); err == nil {
				first <- w[0]
			}
		}()
		synctest.Wait()
		if _, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[1:], ""); err == nil {
			t.Error("no error from the request that the server has refused")
		}
		w := <-first
		if w == nil {
			t.Fatal("an error from the request that the server has answered")
		}
		must(t, conn.Client().Delete(paths[0], -1))
		if e := hears(t, w); e.Type != zk.EventNodeDeleted {
			t.Errorf("the watch hears %+v", e)
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
			if e := hears(t, w); e.Type != 0 {
				t.Errorf("it says %+v", e)
			}
			watched(0)
		}

		w := children(path)
		other, err := conn.WatchNodes(t.Context(), wire.AnySession, []string{path}, "")
		must(t, err)
		w.Drop()
		watched(2) // the server's watch remains for the next waiter, while the node is watched
		w = children(path)
		must(t, errOf(witness.Client().Create(path+"/child", nil, 0, open)))
		if e := hears(t, w); e.Type != zk.EventNodeChildrenChanged {
			t.Errorf("the next watch says %+v", e)
		}
		set(t, witness, path)
		if e := hears(t, other[0]); e.Type != zk.EventNodeDataChanged {
			t.Errorf("the other watch says %+v", e)
		}
		watched(0)
	})
}
