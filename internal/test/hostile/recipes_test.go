package hostile

import (
	"context"
	"os"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

type acquire = func(context.Context) (*zklocks.Hold, error)

// locker is one value of a recipe.
type locker struct {
	lock  acquire
	block acquire // makes lock wait
}

// recipe is one way to lock.
type recipe struct {
	name   string
	below  string // where the nodes stand, below the lock's path
	stored string // what the node at the path holds, if that is not where they stand
	nodes  int    // of one lock
	// watches is how many watches a waiter has behind one holder: on its own nodes, on those ahead,
	// on the number of permits.
	watches int
	shared  bool // lock does not make lock wait, and those of one value have one node
	on      func(conn *wire.Conn, path string) locker
}

var recipes = []recipe{
	{name: "read", nodes: 1, watches: 2, shared: true, on: read},
	{name: "semaphore", below: "/queue", stored: "3", nodes: 2, watches: 5, on: func(conn *wire.Conn, path string) locker { return permit(conn, path, 3, 2) }},
	{name: "write", nodes: 1, watches: 2, on: write},
	{name: "reentrant", nodes: 1, watches: 2, on: reenter},
}

// counted are all recipes in the full size, else the two that keep most: the others do nothing that
// these do not.
func counted() []recipe {
	if os.Getenv("LEAKS") == "" {
		return recipes[:2]
	}
	return recipes
}

// each runs a test over the recipes.
func each(t *testing.T, test func(*testing.T, recipe)) {
	t.Helper()
	for _, r := range counted() {
		t.Run(r.name, func(t *testing.T) { test(t, r) })
	}
}

func write(conn *wire.Conn, path string) locker {
	m := rwlock.New(locks.On(conn), path)
	return locker{m.Lock, m.Lock}
}

func read(conn *wire.Conn, path string) locker {
	m := rwlock.New(locks.On(conn), path)
	return locker{m.RLock, m.Lock}
}

func reenter(conn *wire.Conn, path string) locker {
	m := reentrant.New(locks.On(conn), path)
	return locker{m.Lock, m.Lock}
}

// onePermit is for what depends on how many nodes a member has.
var onePermit = recipe{name: "one permit", below: "/queue", stored: "1", nodes: 1, watches: 3,
	on: func(conn *wire.Conn, path string) locker { return permit(conn, path, 1, 1) }}

func permit(conn *wire.Conn, path string, of, n int) locker {
	l := semaphore.New(locks.On(conn), path, of).Locker(n)
	return locker{l.Lock, l.Lock}
}
