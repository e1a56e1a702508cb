package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/internal/zktest/contract"
	"github.com/zklocks/zklocks/internal/znode"
)

// A quota that the server enforces is an error at once, for the number of nodes
// and for their bytes; nothing stays in line, and holders are left alone.
func TestAQuotaThatIsUsedUp(t *testing.T) {
	t.Parallel()
	server := zktest.Standalone(t, zktest.Options{JVM: []string{"-Dzookeeper.enforceQuota=true"}})
	witness := zktest.Connect(t, session, server.Addr())
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
				path := zktest.Path(t)
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

				p := zktest.ProxyFor(t, server.Addr())
				l := r.with(zktest.Connect(t, session, p.Addr()), path, limit.data)
				for name, call := range map[string]acquire{"lock": l.lock, "block": l.block} {
					before := p.Seen(zktest.AnyOp)
					err := contract.Begin(t, t.Context(), call).Failed()
					if !strings.Contains(err.Error(), "quota") {
						t.Errorf("%s: error %q does not say what is wrong", name, err)
					}
					if n := p.Seen(zktest.AnyOp) - before; n > few {
						t.Errorf("%s: %d requests", name, n)
					}
				}
				if line := zktest.Children(t, witness, dir); len(line) != r.nodes {
					t.Errorf("in line: %q", line)
				}
				must(t, held.Verify(t.Context()))
				must(t, held.Unlock(t.Context()))
				got, err := l.lock(t.Context()) // there is room again
				must(t, err)
				must(t, got.Unlock(t.Context()))
				zktest.AssertEmpty(t, witness, dir)
			})
		})
	}
}

// setQuota does what the command setquota does.
func setQuota(t *testing.T, conn *zk.Conn, path, limits string) {
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

// A line of 20,000 takes more than the MiB at which Java's clients, and some of
// Go's, end a connection. One that zkconn made reads it. On another with such a
// limit a call that must list waits for its context, and asks once in a while.
func TestALineAboveTheClientsLimit(t *testing.T) {
	t.Parallel()
	const members, limit = 20_000, 1 << 20
	server := zktest.Standalone(t, zktest.Options{})
	witness := zktest.Connect(t, session, server.Addr())
	path := zktest.Path(t)
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
	line := zktest.Children(t, witness, dir)
	if bytes := len(strings.Join(line, "    ")); len(line) != members || bytes <= limit {
		t.Fatalf("%d members, a listing of %d bytes", len(line), bytes)
	}

	waiting := make(map[string]*contract.Attempt[contract.Hold])
	asked := make(map[string]func() int64)
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			there := len(zktest.Children(t, witness, dir))
			p, limited := zktest.ProxyFor(t, server.Addr()), zktest.ProxyFor(t, server.Addr())
			at := strings.TrimSuffix(dir, r.below)
			narrow := r.on(connectLimited(t, limited.Addr(), limit), at)
			began, wait := time.Now(), 3*time.Second
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			a := contract.Begin(t, ctx, narrow.lock)
			if err := a.Failed(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a client that cannot list: %v", err)
			}
			a.Prompt()
			took := time.Since(began)
			t.Logf("a client that cannot list asks %d times and connects %d times in %v", limited.Seen(zktest.AnyOp), limited.Seen(zktest.ConnectOp), took.Round(time.Millisecond))
			if n := limited.Seen(zktest.AnyOp); n > few+10*int64(took/time.Second) {
				t.Errorf("%d requests in %v", n, took)
			}
			zktest.Eventually(t, soon, "it has left the line", func() bool { return len(zktest.Children(t, witness, dir)) == there })

			wide := r.on(zktest.Connect(t, session, p.Addr()), at)
			if _, err := wide.try(t.Context()); !errors.Is(err, hold.ErrBusy) {
				t.Errorf("try: %v, want %v", err, hold.ErrBusy)
			}
			before := p.Seen(zktest.AnyOp)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := contract.Begin(t, short, wide.lock).Failed(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("behind 20,000: %v", err)
			}
			if n := p.Seen(zktest.AnyOp) - before; n > few {
				t.Errorf("%d requests", n)
			}
			zktest.Eventually(t, soon, "it has left the line", func() bool { return len(zktest.Children(t, witness, dir)) == there })
		})
		p := zktest.ProxyFor(t, server.Addr())
		before := len(zktest.Children(t, witness, dir))
		waiting[r.name] = contract.Begin(t, t.Context(), r.on(zktest.Connect(t, session, p.Addr()), strings.TrimSuffix(dir, r.below)).lock)
		asked[r.name] = func() int64 { return p.Seen(zktest.AnyOp) }
		zktest.Eventually(t, soon, "one stands in line", func() bool { return len(zktest.Children(t, witness, dir)) == before+r.nodes })
	}
	for len(line) > 0 { // from the front
		var ops []any
		for _, name := range line[:min(2000, len(line))] {
			ops = append(ops, &zk.DeleteRequest{Path: dir + "/" + name, Version: -1})
		}
		line = line[len(ops):]
		_, err := witness.Multi(ops...)
		must(t, err)
	}
	for _, r := range recipes {
		must(t, waiting[r.name].Granted().Unlock(t.Context()))
		// A look for each time that somebody goes whom it watched, at most.
		if n := asked[r.name](); n > 10*few {
			t.Errorf("%s: %d requests until 20,000 have gone", r.name, n)
		}
	}
	zktest.AssertEmpty(t, witness, dir)
}

// connectLimited is a connection that zkconn did not make, and that ends when a
// reply has more bytes than this.
func connectLimited(t *testing.T, addr string, limit int) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, session, zk.WithMaxBufferSize(limit), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range events { // closed with the client's loop
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		zktest.Within(t, soon, "the client's loop ends", func() { <-ended })
	})
	zktest.Eventually(t, soon, "a session", func() bool { return conn.State() == zk.StateHasSession })
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}
