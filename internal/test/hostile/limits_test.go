package hostile

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// A quota that the server enforces is an error at once, for the number of nodes and for their
// bytes; no node stays in the queue, and holders keep their holds.
func TestAQuotaThatIsUsedUp(t *testing.T) {
	server := realzk.Standalone(t, realzk.Options{JVM: []string{"-Dzookeeper.enforceQuota=true"}})
	witness := realzk.Connect(t, session, server.Addr())
	for _, limit := range []struct {
		name, line string
		data       []byte
	}{
		// The directory, README, the holder's nodes, and no others.
		{"nodes", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", nil},
		{"bytes", "count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=-1", make([]byte, 100)},
	} {
		t.Run(limit.name, func(t *testing.T) {
			each(t, func(t *testing.T, r recipe) {
				path := test.Path(t)
				dir := path + r.below
				if r.below != "" {
					_, err := witness.Create(path, []byte(r.stored), zk.FlagPersistent, open)
					must(t, err)
				}
				_, err := witness.Create(dir, nil, zk.FlagPersistent, open)
				must(t, err)
				held, err := r.with(witness, path, limit.data).block(t.Context())
				must(t, err)
				most := 1 + r.nodes
				if limit.data != nil {
					most = r.nodes * len(limit.data)
				}
				setQuota(t, witness, dir, fmt.Sprintf(limit.line, most))

				p := proxy.For(t, server.Addr())
				l := r.with(realzk.Connect(t, session, p.Addr()), path, limit.data)
				for name, call := range map[string]acquire{"lock": l.lock, "block": l.block} {
					before := p.Seen(proxy.AnyOp)
					err := contract.Begin(t, t.Context(), call).Failed()
					if !strings.Contains(err.Error(), "quota") {
						t.Errorf("%s: error %q does not say what is wrong", name, err)
					}
					if n := p.Seen(proxy.AnyOp) - before; n > few {
						t.Errorf("%s: %d requests", name, n)
					}
				}
				if line := test.Children(t, witness, dir); len(line) != r.nodes {
					t.Errorf("in line: %q", line)
				}
				must(t, held.Verify(t.Context()))
				must(t, held.Release(t.Context()))
				got, err := l.lock(t.Context()) // there is room again
				must(t, err)
				must(t, got.Release(t.Context()))
				test.AssertEmpty(t, witness, dir)
			})
		})
	}
}

// setQuota does what the command setquota does.
func setQuota(t *testing.T, conn *wire.Conn, path, limits string) {
	t.Helper()
	at := "/zookeeper/quota"
	for _, part := range strings.Split(path[1:], "/") {
		at += "/" + part
		if _, err := conn.Create(at, nil, zk.FlagPersistent, open); err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
	}
	for _, node := range []struct{ name, data string }{
		{"/zookeeper_limits", limits}, {"/zookeeper_stats", "count=0,bytes=0"},
	} {
		_, err := conn.Create(at+node.name, []byte(node.data), zk.FlagPersistent, open)
		must(t, err)
	}
}

// A request may be nearly as large as a server takes. One byte of data, or one permit, more is
// refused before it is sent.
func TestTheLargestRequest(t *testing.T) {
	server := realzk.Standalone(t, realzk.Options{})
	conn := locks.On(realzk.Connect(t, session, server.Addr()))
	path := test.Path(t)
	for what, c := range map[string]struct {
		of          func(n int) zklocks.Locker // a request of n
		least, most int                        // the largest n is between the two
	}{
		"data": {
			func(n int) zklocks.Locker {
				data := zklocks.WithData(make([]byte, n))
				return zklocks.All(rwlock.New(conn, path+"-a", data), rwlock.New(conn, path+"-b", data))
			},
			490_000, 500_000,
		},
		"permits": {
			func(n int) zklocks.Locker { return semaphore.New(conn, path+"-permits", 20_000).Locker(n) },
			4000, 10_000,
		},
	} {
		largest := sort.Search(c.most, func(n int) bool {
			hold, err := c.of(n + 1).Lock(t.Context())
			if err == nil {
				must(t, hold.Release(t.Context()))
				return false
			}
			if !strings.Contains(err.Error(), "more than a server takes") {
				t.Fatalf("%d: %v", n+1, err)
			}
			return true
		})
		if largest < c.least || largest >= c.most {
			t.Errorf("%s: at most %d, not between %d and %d", what, largest, c.least, c.most)
		}
	}
}

// The listing of 20,000 members is larger than the 1 MiB at which Java's clients end a connection.
// A connection of Connect reads it.
func TestAQueueAboveTheClientsLimit(t *testing.T) {
	const members, limit = 20_000, 1 << 20
	server := realzk.Standalone(t, realzk.Options{})
	witness := realzk.Connect(t, session, server.Addr())
	path := test.Path(t)
	dir := path + "/queue" // for all: each recipe has its third of the line
	_, err := witness.Create(path, []byte("3"), zk.FlagPersistent, open)
	must(t, err)
	_, err = witness.Create(dir, nil, zk.FlagPersistent, open)
	must(t, err)
	kinds := []znode.Kind{znode.Write, znode.Lock, znode.Permit}
	for n := 0; n < members; n += 2000 {
		var ops []any
		for i := range 2000 {
			name := znode.Prefix(znode.NewID(), kinds[i%len(kinds)])
			ops = append(ops, &zk.CreateRequest{Path: dir + "/" + name, Acl: open, Flags: zk.FlagSequence})
		}
		_, err := witness.Multi(ops...)
		must(t, err)
	}
	line := test.Children(t, witness, dir)
	if bytes := len(strings.Join(line, "    ")); len(line) != members || bytes <= limit {
		t.Fatalf("%d members, a listing of %d bytes", len(line), bytes)
	}

	at := func(r recipe) string { return strings.TrimSuffix(dir, r.below) }

	const wait = 2 * time.Second
	var wide []*caller
	for _, r := range recipes {
		p := proxy.For(t, server.Addr())
		wide = append(wide, &caller{recipe: r, proxy: p, locker: r.on(realzk.Connect(t, session, p.Addr()), at(r))})
	}
	for _, c := range wide {
		c.begin(t, wait, c.lock)
	}
	for _, c := range wide {
		if asked := c.inVain(t); asked > few {
			t.Errorf("%s: behind %d it asks %d times", c.name, members, asked)
		}
		if _, err := c.try(t.Context()); !errors.Is(err, hold.ErrBusy) {
			t.Errorf("%s: try: %v, want %v", c.name, err, hold.ErrBusy)
		}
	}
	test.Eventually(t, soon, "they have left the line", func() bool { return len(test.Children(t, witness, dir)) == members })

	own := 0
	for _, c := range wide {
		// Some of them wait for each other.
		c.begin(t, soon, func(ctx context.Context) (*zklocks.Hold, error) {
			held, err := c.lock(ctx)
			if err == nil {
				err = held.Release(ctx)
			}
			return nil, err
		})
		own += c.nodes
	}
	test.Eventually(t, soon, "they stand in line", func() bool { return len(test.Children(t, witness, dir)) == members+own })
	for len(line) > 0 { // from the front
		var ops []any
		for _, name := range line[:min(2000, len(line))] {
			ops = append(ops, &zk.DeleteRequest{Path: dir + "/" + name, Version: -1})
		}
		line = line[len(ops):]
		_, err := witness.Multi(ops...)
		must(t, err)
	}
	for _, c := range wide {
		test.Within(t, soon, "it has had its turn", func() { <-c.attempt.Done })
		must(t, c.attempt.Err)
		// It lists at most once for each node that it watched and that was deleted.
		if n := c.proxy.Seen(proxy.AnyOp) - c.before; n > 2*few {
			t.Errorf("%s: %d requests until %d have gone", c.name, n, members)
		}
	}
	test.AssertEmpty(t, witness, dir)
}
