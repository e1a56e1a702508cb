package hostile

import (
	"context"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

type acquire = func(context.Context) (*zklocks.Hold, error)

// locker is one value of a recipe.
type locker struct {
	lock  acquire
	try   acquire
	block acquire // makes lock wait
}

// recipe is one way to lock.
type recipe struct {
	name   string
	below  string // where the nodes stand, below the lock's path
	stored string // what the node at the path holds, if that is not where they stand
	kind   znode.Kind
	nodes  int // of one lock
	// watches is how many watches a waiter has behind one holder: on its own nodes, on those ahead,
	// on the number of permits, on the directory for writers.
	watches int
	shared  bool // lock does not make lock wait, and those of one value have one node
	with    func(conn *wire.Conn, path string, data []byte) locker
}

// on is a lock value whose nodes have no data.
func (r recipe) on(conn *wire.Conn, path string) locker { return r.with(conn, path, nil) }

var recipes = []recipe{
	{name: "write", kind: znode.Write, nodes: 1, watches: 2, with: write},
	{name: "read", kind: znode.Read, nodes: 1, watches: 3, shared: true, with: read},
	{name: "reentrant", kind: znode.Lock, nodes: 1, watches: 2, with: reenter},
	{name: "semaphore", below: "/queue", stored: "3", kind: znode.Permit, nodes: 2, watches: 5, with: permits},
}

// each runs a test over all recipes.
func each(t *testing.T, test func(*testing.T, recipe)) {
	t.Helper()
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) { test(t, r) })
	}
}

func write(conn *wire.Conn, path string, data []byte) locker {
	m := rwlock.New(locks.On(conn), path, zklocks.WithData(data))
	return locker{m.Lock, m.TryLock, m.Lock}
}

func read(conn *wire.Conn, path string, data []byte) locker {
	m := rwlock.New(locks.On(conn), path, zklocks.WithData(data))
	return locker{m.RLock, m.TryRLock, m.Lock}
}

func reenter(conn *wire.Conn, path string, data []byte) locker {
	m := reentrant.New(locks.On(conn), path, zklocks.WithData(data))
	return locker{m.Lock, m.TryLock, m.Lock}
}

// permits are two of three: two holders of two do not fit.
func permits(conn *wire.Conn, path string, data []byte) locker { return permit(conn, path, data, 3, 2) }

// onePermit is for what depends on how many nodes a member has.
var onePermit = recipe{name: "one permit", below: "/queue", stored: "1", kind: znode.Permit, nodes: 1, watches: 3,
	with: func(conn *wire.Conn, path string, data []byte) locker { return permit(conn, path, data, 1, 1) }}

func permit(conn *wire.Conn, path string, data []byte, of, n int) locker {
	l := semaphore.New(locks.On(conn), path, of, zklocks.WithData(data)).Locker(n)
	return locker{l.Lock, l.TryLock, l.Lock}
}
