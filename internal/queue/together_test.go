package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// Between the turn of one waiter and that of the last something may happen to any of them.
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
					dir := x.queue.dir + "-beside"
					x.must(x.witness.Client().Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)))
					queues, r := []*Queue{x.queue, newQueue(t, x.conn, dir, x.queue.cfg)}, Request{Kind: znode.Lock, Nodes: 1}
					all, _, err := enqueue(t.Context(), []Part{{Queue: queues[0], Request: r}, {Queue: queues[1], Request: r}}, true)
					x.must(nil, err)
					defer all[0].lease.End()
					c.happens(x, queues[i].path(all[i].nodes[0]))
					synctest.Wait()
					behind, at, err := all.confirm(t.Context())
					if len(behind) != c.behind || err != c.err || err != nil && at != queues[i] {
						t.Errorf("%d behind, %v, %v, want %d and %v", len(behind), at, err, c.behind, c.err)
					}
				})
			})
		}
	}
}
