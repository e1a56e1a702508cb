package soak

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// expiring is the timeout of sessions that are ended on purpose. Now and then the client resumes a
// session that is just being closed, where the server does not answer any more. The client detects
// that after two thirds of the timeout.
const expiring = 6 * time.Second

var open = zk.WorldACL(zk.PermAll)

// leaksNothing has waits canceled and sessions lost, over and over: heap, goroutines, watches and
// nodes must be as many as before. It counts what this process and its shared server have, so no
// other test may run at the same time.
func leaksNothing(t *testing.T, o options) {
	times := 1
	if !o.short() {
		times = 100
	}
	for i, w := range ways[:4] {
		for j, c := range []struct {
			name string
			run  func(t *testing.T)
		}{
			{"canceled waits, ", func(t *testing.T) { canceledWaits(t, w, 50*times) }},
			{"waiters, ", func(t *testing.T) { costOfWaiters(t, w, 60*min(times, 16), true) }},
			{"paths used once, ", func(t *testing.T) { pathsUsedOnce(t, w, 60*times) }},
			{"lost sessions, ", func(t *testing.T) { lostSessions(t, w, 6*times) }},
		} {
			if i == j || !o.short() {
				t.Run(c.name+w.name, c.run)
			}
		}
	}
	if !o.short() {
		t.Run("waiters, read by one value", func(t *testing.T) { costOfWaiters(t, ways[1], 60*min(times, 16), false) })
	}
}

// hall is a lock on the shared server, a client that lists its queue, and a connection whose
// watches and nodes are counted.
type hall struct {
	*testing.T
	way
	path, dir   string
	witness     *wire.Conn
	conn        *wire.Conn
	lock, block acquire // block is of the witness
}

func newHall(t *testing.T, w way, timeout time.Duration) *hall {
	t.Helper()
	addr, path := realzk.Shared(t).Addr(), test.Path(t)
	h := &hall{T: t, way: w, path: path, dir: path + w.below, witness: realzk.Connect(t, lasting, addr), conn: realzk.Connect(t, timeout, addr)}
	h.makeDir(path)
	h.lock, h.block = w.hold(locks.On(h.conn), path), w.next(locks.On(h.witness), path)
	// What the locks of a connection share is freed with the last lock, and then the figures would
	// not show it.
	t.Cleanup(func() { runtime.KeepAlive(h.lock) })
	return h
}

// makeDir creates the directory of a lock as a persistent node: a container may be deleted by the
// server before the nodes are counted.
func (h *hall) makeDir(path string) {
	h.Helper()
	if h.below != "" {
		_, err := h.witness.Client().Create(path, []byte("1"), zk.FlagPersistent, open)
		h.must(err)
	}
	_, err := h.witness.Client().Create(path+h.below, nil, zk.FlagPersistent, open)
	h.must(err)
}

func (h *hall) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// own returns the calls of another value of the lock.
func (h *hall) own() acquire { return h.hold(locks.On(h.conn), h.path) }

// queues waits until the queue has at least, or at most, so many nodes.
func (h *hall) queues(least, most int) {
	h.Helper()
	test.Eventually(h, patience, fmt.Sprintf("%d to %d nodes in the queue", least, most), func() bool {
		n := len(test.Children(h, h.witness.Client(), h.dir))
		return least <= n && n <= most
	})
}

const many = 1 << 30

// flat runs a function n times in all: a few times at first, and then in two halves. It asserts
// that the figures do not grow.
func (h *hall) flat(n, step int, do func(step int)) {
	h.Helper()
	run := func(n int) figures {
		for ; n > 0; n -= step {
			do(min(n, step))
		}
		return read(h)
	}
	start, middle, end := run(2*step), run(n/2), run(n-n/2) // the first run lets all tables reach their size
	// A semaphore keeps its watch on the number of permits, and itself, for up to 20 s.
	test.Poll(patience, func() bool { end = read(h); return len(end.grown(start)) == 0 })
	h.Logf("%s: after a few %v; after %d %v; after %d %v", h.name, start, n/2, middle, n, end)
	for _, grown := range end.grown(start) {
		h.Errorf("after %d: %s", n, grown)
	}
}

// canceledWaits leave nothing: neither waits that had queued, nor waits whose create was still in
// flight. Each wait has its own lock value.
func canceledWaits(t *testing.T, w way, n int) {
	h := newHall(t, w, lasting)
	held, err := h.block(t.Context())
	h.must(err)
	holders := len(test.Children(t, h.witness.Client(), h.dir))
	// A first waiter watches every node that can be watched. The client cannot remove a watch, so
	// the watches on nodes that exist remain, for the next waiter.
	h.wait(1, func() {
		test.Eventually(h, patience, "a waiter watches", func() bool { return len(realzk.Watched(h, h.conn.Session())) == h.watches })
	})
	h.queues(0, holders)
	round := 0
	h.flat(n, min(100, n/4), func(waiters int) {
		round++
		// The waits are canceled when all are queued, or only some of them.
		h.wait(waiters, func() { h.queues(holders+waiters*(4-round%4)/4, many) })
		h.queues(0, holders)
	})
	h.must(held.Release(t.Context()))
	test.AssertEmpty(t, h.witness.Client(), h.dir)
}

// wait starts waiters, each with its own lock value, and cancels them when the function there
// returns.
func (h *hall) wait(waiters int, there func()) {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	var all sync.WaitGroup
	for range waiters {
		lock := h.own()
		all.Go(func() {
			if got, err := lock(ctx); !errors.Is(err, context.Canceled) {
				h.Errorf("%v, %v", got, err)
			}
		})
	}
	there()
	cancel()
	all.Wait()
}

// lostSessions leave nothing: sessions expire under a holder, a waiter and a holder that calls no
// method of its hold. It is always the same waiter, which queues again each time.
func lostSessions(t *testing.T, w way, n int) {
	h := newHall(t, w, expiring)
	held, err := h.block(t.Context())
	h.must(err)
	holders := len(test.Children(t, h.witness.Client(), h.dir))
	h.makeDir(h.path + "-asked")
	h.makeDir(h.path + "-unasked")
	asked, unasked := h.hold(locks.On(h.conn), h.path+"-asked"), h.hold(locks.On(h.conn), h.path+"-unasked")
	h.wait(1, func() {
		h.queues(holders+1, many)
		h.flat(n, 1, func(int) {
			one, err := asked(t.Context())
			h.must(err)
			lost, inside := one.Lost(), one.Context(t.Context())
			other, err := unasked(t.Context())
			h.must(err)
			realzk.Expire(t, h.conn)
			test.Within(t, patience, "the loss is notified", func() { <-lost; <-inside.Done() })
			for _, h := range []*zklocks.Hold{one, other} {
				if err := h.Release(t.Context()); !errors.Is(err, hold.ErrLost) {
					t.Errorf("release after the end of the session: %v", err)
				}
			}
			test.Eventually(t, patience, "the waiter has queued again", func() bool {
				mine := 0
				for _, name := range test.Children(t, h.witness.Client(), h.dir) {
					if _, stat, err := h.witness.Client().Exists(h.dir + "/" + name); err == nil && stat.EphemeralOwner == h.conn.Session() {
						mine++
					}
				}
				return mine == 1
			})
		})
	})
	h.must(held.Release(t.Context()))
	for _, dir := range []string{h.dir, h.path + "-asked" + h.below, h.path + "-unasked" + h.below} {
		test.AssertEmpty(t, h.witness.Client(), dir)
	}
}

// pathsUsedOnce leave nothing: a program may have a lock for each of its customers. The server
// deletes the nodes of these locks, and no watch on the nodes and no memory remains.
func pathsUsedOnce(t *testing.T, w way, n int) {
	h := newHall(t, w, lasting)
	next := 0
	use := func(n int) {
		for range n {
			next++
			held, err := h.hold(locks.On(h.conn), fmt.Sprintf("%s-%d", h.path, next))(t.Context())
			h.must(err)
			h.must(held.Release(t.Context()))
		}
	}
	start := read(h)
	use(20) // so that all tables have their size
	var before, after figures
	test.Eventually(t, patience, "nothing is left of a few", func() bool {
		before = read(h)
		return before.nodes <= start.nodes && before.watched <= start.watched
	})
	use(n)
	test.Eventually(t, 2*patience, "nothing is left", func() bool {
		after = read(h)
		return len(after.grown(before)) == 0
	})
	t.Logf("%s: before %v; after %d %v", w.name, before, n, after)
}

const (
	// perWaiter is how many bytes a waiting goroutine may cost, including what the client keeps for
	// each watch.
	perWaiter = 4 << 10
	// perValue is how many bytes a lock value may cost that no goroutine uses.
	perValue = 1 << 10
)

// costOfWaiters measures waiters of one queue, each with its own lock value or all with one value.
// It compares them with as many goroutines that only wait for their context.
func costOfWaiters(t *testing.T, w way, waiters int, own bool) {
	h := newHall(t, w, lasting)
	held, err := h.block(t.Context())
	h.must(err)
	holders := len(test.Children(t, h.witness.Client(), h.dir))
	inQueue, senders := waiters, 0
	if !own {
		inQueue = 1
	}
	if h.name == "read" { // one goroutine queues for all readers of one value
		senders = inQueue
	}
	crowd := func(wait func(ctx context.Context, i int), there func()) (perHeap int64, goroutines int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before := read(h)
		var all sync.WaitGroup
		for i := range waiters {
			all.Go(func() { wait(ctx, i) })
		}
		there()
		after := read(h)
		cancel()
		all.Wait()
		h.queues(0, holders)
		return (after.heap - before.heap) / int64(waiters), after.goroutines - before.goroutines
	}
	before := heap()
	values := make([]acquire, waiters)
	for i := range values {
		if values[i] = values[0]; i == 0 || own {
			values[i] = h.own()
		}
	}
	perV := (heap() - before) / int64(waiters)
	wait := func(ctx context.Context, i int) {
		if _, err := values[i](ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	there := func() {
		h.queues(holders+inQueue, many)
		test.Eventually(t, patience, "all waiters watch", func() bool { return len(realzk.Watched(t, h.conn.Session())) >= inQueue })
	}
	crowd(wait, there) // so that all tables have their size
	bareHeap, bare := crowd(func(ctx context.Context, _ int) { <-ctx.Done() }, func() {})
	perHeap, goroutines := crowd(wait, there)
	t.Logf("%s: a value has %d bytes of heap; of %d waiters each has %d and %.2f goroutines, one that waits for its context alone %d and %.2f",
		w.name, perV, waiters, perHeap, float64(goroutines)/float64(waiters), bareHeap, float64(bare)/float64(waiters))
	// All waiters share the heartbeat and its requests.
	if perHeap-bareHeap > perWaiter || perV > perValue || goroutines-bare-senders > 4 {
		t.Errorf("the limits are %d bytes for a waiter, %d for a value, and 4 goroutines for all waiters", perWaiter, perValue)
	}
	h.must(held.Release(t.Context()))
	test.AssertEmpty(t, h.witness.Client(), h.dir)
}

// figures are the numbers that must not grow.
type figures struct {
	heap       int64 // bytes that live after a garbage collection
	goroutines int
	watched    int // watches that the server has, of all clients
	nodes      int // that the server has
}

func (f figures) String() string {
	return fmt.Sprintf("%d KiB of heap, %d goroutines, %d watches, %d nodes", f.heap>>10, f.goroutines, f.watched, f.nodes)
}

// slack is by how much two readings of a heap that does not grow may differ, because of the
// runtime's own tables and pools, and the buffers into which the client is reading.
const slack = 512 << 10

// grown names the figures that are larger than before.
func (f figures) grown(before figures) (grown []string) {
	for _, g := range []struct {
		what      string
		now, then int64
	}{
		{"bytes of heap", f.heap, before.heap + slack},
		{"goroutines", int64(f.goroutines), int64(before.goroutines)},
		{"watches", int64(f.watched), int64(before.watched)},
		{"nodes", int64(f.nodes), int64(before.nodes)},
	} {
		if g.now > g.then {
			grown = append(grown, fmt.Sprintf("%d %s, more than %d", g.now, g.what, g.then))
		}
	}
	return grown
}

// read waits until no request or goroutine is active, and reads the figures of this process and of
// the shared server.
func read(tb testing.TB) (f figures) {
	tb.Helper()
	last, same := -1, 0
	test.Eventually(tb, patience, "goroutines come to rest", func() bool {
		f.goroutines = runtime.NumGoroutine()
		if same++; f.goroutines != last {
			last, same = f.goroutines, 0
		}
		return same == 20
	})
	mntr, err := realzk.Shared(tb).Mntr()
	if err != nil {
		tb.Fatal(err)
	}
	number := func(key string) int {
		n, err := strconv.Atoi(mntr[key])
		if err != nil {
			tb.Fatalf("%s: %v", key, err)
		}
		return n
	}
	f.watched, f.nodes = number("zk_watch_count"), number("zk_znode_count")
	f.heap = heap()
	return f
}

// heap returns the bytes that are reachable. Finalizers, weak pointers and cleanups need a second
// collection, and pools need a third.
func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
