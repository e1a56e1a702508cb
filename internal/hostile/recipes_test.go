package hostile

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

type acquire = func(context.Context) (contract.Hold, error)

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
	// watches are what a waiter has behind one holder: on its own nodes, on those
	// ahead, on the number of permits, on the directory to hear of writers.
	watches int
	shared  bool // lock does not make lock wait, and those of one value have one node
	with    func(conn *zk.Conn, path string, data []byte) locker
}

// on is a lock value whose nodes have no data.
func (r recipe) on(conn *zk.Conn, path string) locker { return r.with(conn, path, nil) }

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

func write(conn *zk.Conn, path string, data []byte) locker {
	m := rwlock.New(conn, path, rwlock.WithData(data))
	lock := func(ctx context.Context) (contract.Hold, error) { return contract.As(m.Lock(ctx)) }
	try := func(ctx context.Context) (contract.Hold, error) { return contract.As(m.TryLock(ctx)) }
	return locker{lock, try, lock}
}

func read(conn *zk.Conn, path string, data []byte) locker {
	m := rwlock.New(conn, path, rwlock.WithData(data))
	return locker{
		func(ctx context.Context) (contract.Hold, error) { return contract.As(m.RLock(ctx)) },
		func(ctx context.Context) (contract.Hold, error) { return contract.As(m.TryRLock(ctx)) },
		func(ctx context.Context) (contract.Hold, error) { return contract.As(m.Lock(ctx)) },
	}
}

func reenter(conn *zk.Conn, path string, data []byte) locker {
	m := reentrant.New(conn, path, reentrant.WithData(data))
	lock := func(ctx context.Context) (contract.Hold, error) { return contract.As(m.Lock(ctx)) }
	try := func(ctx context.Context) (contract.Hold, error) { return contract.As(m.TryLock(ctx)) }
	return locker{lock, try, lock}
}

// permits are two of three: two holders of two do not fit.
func permits(conn *zk.Conn, path string, data []byte) locker {
	return acquirer(semaphore.New(conn, path, 3, semaphore.WithData(data)), 2)
}

// onePermit is for what depends on how many nodes a member has.
var onePermit = recipe{name: "one permit", below: "/queue", stored: "1", kind: znode.Permit, nodes: 1, watches: 3,
	with: func(conn *zk.Conn, path string, data []byte) locker {
		return acquirer(semaphore.New(conn, path, 1, semaphore.WithData(data)), 1)
	}}

func acquirer(s *semaphore.Semaphore, n int) locker {
	hold := func(h *semaphore.Hold, err error) (contract.Hold, error) { return contract.As(unlocker{h}, err) }
	lock := func(ctx context.Context) (contract.Hold, error) { return hold(s.Acquire(ctx, n)) }
	try := func(ctx context.Context) (contract.Hold, error) { return hold(s.TryAcquire(ctx, n)) }
	return locker{lock, try, lock}
}

type unlocker struct{ *semaphore.Hold }

func (h unlocker) Unlock(ctx context.Context) error { return h.Release(ctx) }
