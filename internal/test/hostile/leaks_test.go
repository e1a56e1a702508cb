package hostile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/zklocks/zklocks/leader"
)

const (
	// session is longer than any pause of this machine.
	session = 30 * time.Second
	// expiring is the timeout of sessions that are ended on purpose. Now and then the client
	// resumes one that is just being closed, where the server answers it no more; it notices after
	// two thirds of the timeout.
	expiring = 6 * time.Second
	// soon is more than any step needs on a busy machine, if it ends at all.
	soon = 60 * time.Second
)

var open = zk.WorldACL(zk.PermAll)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hall is a lock on the shared server, a client that lists its queue, and a connection whose
// watches and nodes are measured.
type hall struct {
	*testing.T
	recipe
	path, dir string
	witness   *wire.Conn
	conn      *wire.Conn
	meter     meter
}

func newHall(t *testing.T, r recipe, timeout time.Duration) *hall {
	t.Helper()
	server := realzk.Shared(t)
	path := test.Path(t)
	h := &hall{
		T: t, recipe: r, path: path, dir: path + r.below,
		witness: realzk.Connect(t, session, server.Addr()),
		conn:    realzk.Connect(t, timeout, server.Addr()),
	}
	h.meter = meter{t, h.conn}
	h.makeDir(path)
	// What the locks of a connection share is freed with the last of them, and then the meter could
	// not see it.
	lasting := r.on(h.conn, path)
	t.Cleanup(func() { runtime.KeepAlive(lasting) })
	return h
}

// makeDir creates the directory of a lock as a persistent node: a container may be deleted by the
// server before the nodes are counted.
func (h *hall) makeDir(path string) {
	h.Helper()
	if h.below != "" {
		_, err := h.witness.Create(path, []byte(h.stored), zk.FlagPersistent, open)
		must(h, err)
	}
	_, err := h.witness.Create(path+h.below, nil, zk.FlagPersistent, open)
	must(h, err)
}

// inLine waits until the queue has so many nodes, or more.
func (h *hall) inLine(nodes int) {
	h.Helper()
	test.Eventually(h, soon, "nodes in line", func() bool { return len(test.Children(h, h.witness, h.dir)) >= nodes })
}

// only waits until no more than so many nodes are left.
func (h *hall) only(nodes int) {
	h.Helper()
	test.Eventually(h, soon, "nodes left in line", func() bool { return len(test.Children(h, h.witness, h.dir)) <= nodes })
}

// flat does something size times in all, a little at first and then in halves, and asserts that the
// figures do not grow.
func (h *hall) flat(size, step int, do func(step int)) {
	h.Helper()
	began := time.Now()
	run := func(n int) {
		h.Helper()
		for n > 0 {
			do(min(n, step))
			n -= step
		}
	}
	run(2 * step) // so that all tables have their size
	start := h.meter.read()
	run(size / 2)
	middle := h.meter.read()
	run(size - size/2)
	end := h.meter.read()
	for _, at := range []struct {
		when string
		figures
	}{{"start", start}, {"middle", middle}, {"end", end}} {
		h.Logf("%-9s %-6s %v", h.name, at.when, at.figures)
	}
	for _, grown := range end.grown(start) {
		h.Errorf("after %d: %s", size, grown)
	}
	h.Logf("%-9s %d in %v", h.name, size, time.Since(began).Round(time.Second))
}

// watchOnce has one waiter watch every node that can be watched. The client cannot remove a watch,
// so those on nodes that live stay, for the next waiter.
func (h *hall) watchOnce(holders int) {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	gone := make(chan error, 1)
	go func() { _, err := h.on(h.conn, h.path).lock(ctx); gone <- err }()
	test.Eventually(h, soon, "a waiter watches", func() bool { return len(realzk.Watched(h, h.conn.SessionID())) == h.watches })
	cancel()
	<-gone
	h.only(holders)
}

// Waits that are canceled leave nothing: neither those that had queued, nor those whose create was
// still in flight. Each has a lock value of its own.
func TestCanceledWaitsLeaveNothing(t *testing.T) {
	size := setting(t, "CANCELED", 200, 100_000) / len(counted())
	each(t, func(t *testing.T, r recipe) {
		h := newHall(t, r, session)
		held, err := r.on(h.witness, h.path).block(t.Context())
		must(t, err)
		holders := len(test.Children(t, h.witness, h.dir))
		h.watchOnce(holders)
		round := 0
		h.flat(size, min(100, size/4), func(waiters int) {
			round++
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() {
					got, err := r.on(h.conn, h.path).lock(ctx)
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%v, %v", got, err)
					}
				})
			}
			// All of them in line, then half of them, then some.
			h.inLine(holders + waiters*r.nodes*(4-round%4)/4)
			cancel()
			all.Wait()
			h.only(holders)
		})
		must(t, held.Release(t.Context()))
		test.AssertEmpty(t, h.witness, h.dir)
	})
}

// Sessions that expire under a holder, a waiter and a holder that calls no method of its hold leave
// nothing. The waiter is the same all the time, and queues again each time.
func TestLostSessionsLeaveNothing(t *testing.T) {
	size := setting(t, "SESSIONS", 24, 10_000) / len(counted())
	each(t, func(t *testing.T, r recipe) {
		h := newHall(t, r, expiring)
		held, err := r.on(h.witness, h.path).block(t.Context())
		must(t, err)
		holders := len(test.Children(t, h.witness, h.dir))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waits := make(chan error, 1)
		go func() { _, err := r.on(h.conn, h.path).lock(ctx); waits <- err }()
		h.inLine(holders + r.nodes)

		h.makeDir(h.path + "-asked")
		h.makeDir(h.path + "-unasked")
		asked, unasked := r.on(h.conn, h.path+"-asked"), r.on(h.conn, h.path+"-unasked")
		h.flat(size, 1, func(int) {
			one, err := asked.lock(t.Context())
			must(t, err)
			lost, inside := one.Lost(), one.Context(t.Context())
			other, err := unasked.lock(t.Context())
			must(t, err)
			realzk.Expire(t, h.conn)
			test.Within(t, soon, "the loss is told", func() { <-lost; <-inside.Done() })
			for _, h := range []*zklocks.Hold{one, other} {
				if err := h.Release(t.Context()); !errors.Is(err, hold.ErrLost) {
					t.Errorf("release after the end of the session: %v", err)
				}
			}
			mine := 0
			test.Eventually(t, soon, "the waiter stands in line again", func() bool {
				mine = 0
				for _, name := range test.Children(t, h.witness, h.dir) {
					if _, stat, err := h.witness.Exists(h.dir + "/" + name); err == nil && stat.EphemeralOwner == h.conn.SessionID() {
						mine++
					}
				}
				return mine == r.nodes
			})
		})
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		must(t, held.Release(t.Context()))
		for _, dir := range []string{h.dir, h.path + "-asked" + r.below, h.path + "-unasked" + r.below} {
			test.AssertEmpty(t, h.witness, dir)
		}
	})
}

// A program may have a lock for each of its customers. Paths that were used once leave nothing: the
// server removes their nodes, and no watch on them and no memory remains.
func TestKeysLeaveNothing(t *testing.T) {
	size := setting(t, "KEYS", 300, 20_000) / (len(counted()) + 1)
	leaves := func(t *testing.T, r recipe, use func(path string)) {
		h := newHall(t, r, session)
		round := 0
		do := func(keys int) {
			round++
			for i := range keys {
				use(fmt.Sprintf("%s-%d-%d", h.path, round, i))
			}
		}
		start := h.meter.read()
		do(20) // so that all tables have their size
		var before figures
		test.Eventually(t, soon, "nothing is left of a few", func() bool {
			before = h.meter.read()
			return before.nodes <= start.nodes && before.watched <= start.watched
		})
		do(size)
		var after figures
		test.Eventually(t, 2*soon, "nothing is left", func() bool {
			after = h.meter.read()
			return len(after.grown(before)) == 0
		})
		t.Logf("%-9s before %v", r.name, before)
		t.Logf("%-9s after  %v", r.name, after)
	}
	each(t, func(t *testing.T, r recipe) {
		conn := realzk.Connect(t, session, realzk.Shared(t).Addr())
		leaves(t, r, func(path string) {
			held, err := r.on(conn, path).lock(t.Context())
			must(t, err)
			must(t, held.Release(t.Context()))
		})
	})
	t.Run("observe", func(t *testing.T) { // an election without a candidate
		conn := realzk.Connect(t, session, realzk.Shared(t).Addr())
		leaves(t, recipe{name: "observe", on: write}, func(path string) {
			for _, err := range leader.New(locks.On(conn), path).Observe(t.Context()) {
				must(t, err)
				break
			}
		})
	})
}

// perWaiter is what a waiting goroutine may cost for each of its nodes: our part, and that of the
// client, which keeps an entry for each watch.
const perWaiter = 4 << 10

// perValue is what a lock value may cost that no goroutine uses.
const perValue = 1 << 10

func TestAWaiterCostsLittle(t *testing.T) {
	each(t, func(t *testing.T, r recipe) { cost(t, r, true) })
	t.Run("one permit", func(t *testing.T) { cost(t, onePermit, true) })
	t.Run("read, of one value", func(t *testing.T) { cost(t, recipes[0], false) })
}

// cost measures waiters of one queue, each with a lock value of its own or all with one, beside as
// many goroutines that only wait for their context.
func cost(t *testing.T, r recipe, own bool) {
	waiters := setting(t, "WAITERS", 60, 1000)
	h := newHall(t, r, session)
	held, err := r.on(h.witness, h.path).block(t.Context())
	must(t, err)
	holders := len(test.Children(t, h.witness, h.dir))
	// Readers of one value have one goroutine queue for all of them.
	sent := 0
	if r.shared {
		sent = 1
	}
	inLine := 1
	if own {
		inLine, sent = waiters, sent*waiters
	}
	crowd := func(wait func(ctx context.Context, i int), there func()) (perHeap, perStack int64, goroutines int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before, stackBefore := h.meter.read(), stack()
		var all sync.WaitGroup
		for i := range waiters {
			all.Go(func() { wait(ctx, i) })
		}
		there()
		after := h.meter.read()
		perHeap, perStack = (after.heap-before.heap)/int64(waiters), (stack()-stackBefore)/int64(waiters)
		cancel()
		all.Wait()
		h.only(holders)
		return perHeap, perStack, after.goroutines - before.goroutines
	}
	before := heap()
	values := make([]locker, waiters)
	for i := range values {
		if i == 0 || own {
			values[i] = r.on(h.conn, h.path)
		} else {
			values[i] = values[0]
		}
	}
	if each := (heap() - before) / int64(waiters); each > perValue {
		t.Errorf("a value has %d bytes of heap, the limit is %d", each, perValue)
	} else {
		t.Logf("%-9s a value has %d bytes of heap", r.name, each)
	}
	wait := func(ctx context.Context, i int) {
		if _, err := values[i].lock(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	there := func() {
		h.inLine(holders + inLine*r.nodes)
		test.Eventually(t, soon, "all waiters watch", func() bool { return len(realzk.Watched(t, h.conn.SessionID())) >= inLine*r.nodes })
	}
	crowd(wait, there) // so that all tables have their size
	bareHeap, bareStack, bare := crowd(func(ctx context.Context, _ int) { <-ctx.Done() }, func() {})
	heap, stack, goroutines := crowd(wait, there)
	t.Logf("%-9s of %d waiters each has %d bytes of heap and %d of stack, and %.2f goroutines; one who waits for its context only %d, %d and %.2f",
		r.name, waiters, heap, stack, float64(goroutines)/float64(waiters), bareHeap, bareStack, float64(bare)/float64(waiters))
	if limit := perWaiter * int64(r.nodes); heap-bareHeap > limit {
		t.Errorf("a waiter has %d bytes of heap, the limit is %d", heap-bareHeap, limit)
	}
	// The heartbeat, and what it asks, are one for all.
	if more := goroutines - bare - sent; more > 4 {
		t.Errorf("%d goroutines of ours for %d waiters", more+sent, waiters)
	}
	must(t, held.Release(t.Context()))
	test.AssertEmpty(t, h.witness, h.dir)
}

// stack is what all stacks have.
func stack() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}
