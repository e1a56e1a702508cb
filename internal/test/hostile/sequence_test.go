package hostile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// last is where queuing ends, see znode.Node.Usable.
const last = 1<<31 - 1<<20

// Directories whose numbers come to their end, on a real server: all recipes at each of several
// places, after one pair of restarts.
func TestTheEndOfTheNumbers(t *testing.T) {
	places := []struct {
		name string
		next func(recipe) int32
		run  func(*brink)
	}{
		// Two members fit in front of the margin, the third does not.
		{"the margin begins", func(r recipe) int32 { return last - int32(2*r.nodes) }, marginBegins},
		{"the last number", func(recipe) int32 { return 1<<31 - 1 }, numbersRunOut},
		{"a worn directory is given up", func(recipe) int32 { return 1 << 30 }, wornIsGivenUp},
	}
	server := realzk.Standalone(t, realzk.Options{})
	next := make(map[string]int32)
	t.Run("prepare", func(t *testing.T) { // its connection is closed when it ends
		conn := realzk.Connect(t, session, server.Addr())
		for i, place := range places {
			for _, r := range recipes {
				path := brinkPath(i, r)
				if r.below != "" {
					_, err := conn.Create(path, []byte(r.stored), zk.FlagPersistent, open)
					must(t, err)
				}
				// README keeps the directory when the queue is empty.
				for _, node := range []string{path + r.below, path + r.below + "/README"} {
					_, err := conn.Create(node, nil, zk.FlagPersistent, open)
					must(t, err)
				}
				next[path+r.below] = place.next(r)
			}
		}
	})
	must(t, server.SetSequences(next))
	for i, place := range places {
		t.Run(place.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r recipe) { place.run(newBrink(t, r, server, brinkPath(i, r))) })
		})
	}
}

func brinkPath(place int, r recipe) string { return "/brink-" + string(rune('a'+place)) + "-" + r.name }

// brink is a lock whose directory is near its end.
type brink struct {
	*testing.T
	recipe
	path, dir string
	witness   *wire.Conn
	conn      *wire.Conn
	proxy     *proxy.Proxy
}

func newBrink(t *testing.T, r recipe, server *realzk.Server, path string) *brink {
	t.Helper()
	p := proxy.For(t, server.Addr())
	b := &brink{
		T: t, recipe: r, path: path, dir: path + r.below,
		witness: realzk.Connect(t, session, server.Addr()), conn: realzk.Connect(t, session, p.Addr()), proxy: p,
	}
	return b
}

func (b *brink) line() []string { b.Helper(); return test.Children(b, b.witness, b.dir) }

// refused asserts that every way to take the lock fails at once and says why, that no other node
// stays in the queue, and how many requests it takes.
func (b *brink) refused() {
	b.Helper()
	there := len(b.line())
	l := b.on(b.conn, b.path)
	for name, call := range map[string]acquire{"lock": l.lock, "try": l.try, "block": l.block} {
		before := b.proxy.Seen(proxy.AnyOp)
		a := contract.Begin(b.T, b.Context(), call)
		switch err := a.Failed(); {
		case name == "try" && errors.Is(err, hold.ErrBusy): // it only looks
		case !errors.Is(err, znode.ErrSequence):
			b.Errorf("%s: %v, want %v", name, err, znode.ErrSequence)
		}
		if n := b.proxy.Seen(proxy.AnyOp) - before; n > few {
			b.Errorf("%s: %d requests", name, n)
		}
	}
	test.Eventually(b, soon, "nothing is left", func() bool { return len(b.line()) == there })
}

// idle deletes the node that keeps the directory when the queue is empty.
func (b *brink) idle() { b.Helper(); must(b, b.witness.Delete(b.dir+"/README", -1)) }

// marginBegins: members ahead of the margin are served as ever, those behind it fail, also while
// the others wait and when they have gone.
func marginBegins(b *brink) {
	held, err := b.on(b.witness, b.path).block(b.Context())
	must(b, err)
	two := 1 + b.nodes + b.nodes
	waits := contract.Begin(b.T, b.Context(), b.on(b.conn, b.path).block)
	test.Eventually(b, soon, "the last who may stands in line", func() bool { return len(b.line()) == two })
	b.refused()
	waits.Waits()
	must(b, held.Release(b.Context()))
	got := waits.Granted()
	if got.Token() <= held.Token() {
		b.Errorf("token %d after %d", got.Token(), held.Token())
	}
	must(b, got.Release(b.Context()))
	b.refused()
	b.idle()
	refusedOnce(b)
	renewed(b)
}

// numbersRunOut: the server assigns the last number again and again, or goes on below zero; a
// client that trusted these numbers would hold beside another.
func numbersRunOut(b *brink) {
	for range 3 {
		b.refused()
	}
	// Other clients do not refuse such numbers. No waiter behind them is served, either.
	var others []string
	for range 3 {
		path, err := b.witness.Create(b.dir+"/"+znode.Prefix(znode.NewID(), b.kind), nil, zk.FlagEphemeral|zk.FlagSequence, open)
		must(b, err)
		others = append(others, path)
	}
	b.Logf("%s: the server's numbers: %s", b.name, numbers(others))
	b.refused()
	for _, path := range others {
		must(b, b.witness.Delete(path, -1))
	}
	b.idle()
	refusedOnce(b)
	renewed(b)
}

// refusedOnce: the first caller that is refused while the queue is empty deletes the directory, as
// the error asks for.
func refusedOnce(b *brink) {
	b.Helper()
	if _, err := b.on(b.conn, b.path).lock(b.Context()); !errors.Is(err, znode.ErrSequence) {
		b.Errorf("%v, want %v", err, znode.ErrSequence)
	}
}

func numbers(paths []string) string {
	var all []string
	for _, path := range paths {
		all = append(all, path[len(path)-10:])
	}
	return strings.Join(all, " ")
}

// wornIsGivenUp: long before the end a directory whose queue is empty is deleted.
func wornIsGivenUp(b *brink) {
	held, err := b.on(b.conn, b.path).lock(b.Context())
	must(b, err)
	b.idle()
	must(b, held.Release(b.Context()))
	renewed(b)
}

// renewed asserts that the count begins again at 0.
func renewed(b *brink) {
	b.Helper()
	test.Eventually(b, soon, "the directory is given up", func() bool {
		exists, _, err := b.witness.Exists(b.dir)
		return err == nil && !exists
	})
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	held, err := b.on(b.conn, b.path).lock(ctx)
	must(b, err)
	if line := b.line(); len(line) != b.nodes || !strings.Contains(strings.Join(line, " "), "-0000000000") {
		b.Errorf("in a new directory: %q", line)
	}
	must(b, held.Release(ctx))
	test.AssertEmpty(b, b.witness, b.dir)
}
