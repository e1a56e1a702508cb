package takeover

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// acquire is a call that waits for a lock.
type acquire func(context.Context) (contract.Hold, error)

// recipe is one way to hold a lock, and one to wait for it.
type recipe struct {
	name       string
	below      string // where the nodes stand, below the lock's path
	hold, next func(*zk.Conn, string) acquire
	kind       history.Kind // of the hold
	nextKind   history.Kind
}

var recipes = []recipe{
	{"write", "", write, write, history.Exclusive, history.Exclusive},
	{"read", "", read, write, history.Shared, history.Exclusive},
	{"reentrant", "", reenter, reenter, history.Exclusive, history.Exclusive},
	{"semaphore", "/queue", permit, permit, history.Permits, history.Permits},
}

func recipeNamed(name string) recipe {
	for _, r := range recipes {
		if r.name == name {
			return r
		}
	}
	panic("no recipe " + name)
}

func write(conn *zk.Conn, path string) acquire {
	m := rwlock.New(conn, path)
	return func(ctx context.Context) (contract.Hold, error) { return contract.As(m.Lock(ctx)) }
}

func read(conn *zk.Conn, path string) acquire {
	m := rwlock.New(conn, path)
	return func(ctx context.Context) (contract.Hold, error) { return contract.As(m.RLock(ctx)) }
}

func reenter(conn *zk.Conn, path string) acquire {
	m := reentrant.New(conn, path)
	return func(ctx context.Context) (contract.Hold, error) { return contract.As(m.Lock(ctx)) }
}

func permit(conn *zk.Conn, path string) acquire {
	s := semaphore.New(conn, path, 1)
	return func(ctx context.Context) (contract.Hold, error) {
		h, err := s.Acquire(ctx, 1)
		return contract.As(unlocker{h}, err)
	}
}

type unlocker struct{ *semaphore.Hold }

func (h unlocker) Unlock(ctx context.Context) error { return h.Release(ctx) }
