package queue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// two returns requests for two locks.
func (x *testQueue) two() []Part {
	x.Helper()
	dir, r := x.queue.dir+"-beside", Request{Kind: x.queue.cfg.Names[len(x.queue.cfg.Names)-1].Kind, Nodes: 1}
	x.must(x.witness.Client().Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)))
	return []Part{{Queue: x.queue, Request: r}, {Queue: newQueue(x.T, x.conn, dir, x.queue.cfg), Request: r}}
}

// A grant of several locks is lost with any of its nodes, and not with a node that it has released.
func TestTheNodesOfAGrantOfSeveralLocks(t *testing.T) {
	t.Parallel()
	for released := range 3 { // 2: none
		for i := range 2 {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				parts := x.two()
				g, err := acquireAll(t.Context(), parts, true)
				x.must(nil, err)
				h := new(Hold)
				h.Begin(g, parts[i].Queue, nil, nil)
				h.WatchNodes()
				x.must(nil, h.Downgrade(t.Context(), parts[i].Queue, znode.Write, znode.Read))
				path := h.Guard()[0].Path
				if released < 2 {
					x.must(nil, g.releaseIn(t.Context(), parts[released].Queue))
				}
				synctest.Wait()
				asked := h.ReleaseRequested()
				exists, _, _ := x.witness.Client().Exists(path)
				if exists != (i != released) || g.Err() != nil {
					t.Errorf("%d is released: node %d exists: %v; %v", released, i, exists, g.Err())
				}
				if exists {
					x.must(x.witness.Client().Set(path, []byte(releaseRequest), -1))
					<-asked
					x.goes(path)
				} else {
					x.must(nil, g.GiveUp(t.Context()))
				}
				synctest.Wait()
				if exists != errors.Is(g.Err(), hold.ErrLost) || len(h.Guard()) != 1 {
					t.Errorf("%d is released, node %d is deleted: %v, guard %v", released, i, g.Err(), h.Guard())
				}
				for _, p := range parts {
					test.AssertEmpty(t, x.witness.Client(), p.Queue.dir)
				}
			})
		}
	}
}

// A node is deleted whose turn has come at once, while another waits: no grant without the node.
func TestANodeIsDeletedAfterItsTurn(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		parts := x.two()
		ahead := lock(t, parts[1].Queue, znode.Lock)
		time.AfterFunc(time.Second, func() {
			x.goes(x.line()[0])
			x.must(nil, ahead.Release(x.Context()))
		})
		g, err := acquireAll(t.Context(), parts, true)
		x.must(nil, err)
		x.must(nil, g.GiveUp(t.Context()))
	})
}

// Between the turn of one waiter and the turn of the last something may happen to any of them.
func TestWhatForbidsAGrantOfSeveralLocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(x *testQueue, path string)
		behind  int
		err     error
	}{
		"nothing":             {func(*testQueue, string) {}, 0, nil},
		"a node is deleted":   {func(x *testQueue, path string) { x.goes(path) }, 0, errNoNode},
		"its watch has fired": {func(x *testQueue, path string) { x.must(x.witness.Client().Set(path, nil, -1)) }, 0, nil}, // it is watched again
		"long ago":            {func(*testQueue, string) { time.Sleep(FirstRecheck + time.Millisecond) }, 2, nil},
		"a reconnect":         {func(x *testQueue, _ string) { x.reconnects(x.conn.Session()) }, 2, nil},
	} {
		for i := range 2 {
			t.Run(name, func(t *testing.T) {
				venue.InMemory(t, func(t *testing.T, v venue.Venue) {
					x := newTestQueue(t, v, 10*time.Second)
					all, _, err := enqueue(t.Context(), x.two(), true)
					x.must(nil, err)
					defer all[0].lease.End()
					forgotten := 0
					all[i].limit.Forget = func() { forgotten++ }
					c.happens(x, all[i].queue.path(all[i].nodes[0]))
					synctest.Wait()
					behind, at, err := all.confirm(t.Context())
					if len(behind) != c.behind || err != c.err || err != nil && at != all[i].queue || (forgotten > 0) != (name == "long ago") {
						t.Errorf("%d behind, %v, %v, want %d and %v", len(behind), at, err, c.behind, c.err)
					}
				})
			})
		}
	}
}
