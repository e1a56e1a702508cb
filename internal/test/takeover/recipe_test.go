package takeover

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// acquire is a call that waits for a lock.
type acquire func(context.Context) (*zklocks.Hold, error)

// recipe is one way to hold a lock, and one to wait for it.
type recipe struct {
	name       string
	below      string // where the nodes stand, below the lock's path
	hold, next func(*wire.Conn, string) acquire
	kind       history.Kind // of the hold
	nextKind   history.Kind
}

var recipes = []recipe{
	{"write", "", write, write, history.Exclusive, history.Exclusive},
	{"read", "", read, write, history.Shared, history.Exclusive},
	{"reentrant", "", reenter, reenter, history.Exclusive, history.Exclusive},
	{"semaphore", "/queue", permit, permit, history.Permits, history.Permits},
	{"several", "", several, several, history.Exclusive, history.Exclusive},
	{"leader", "", candidacy, candidacy, history.Exclusive, history.Exclusive},
}

func recipeNamed(name string) recipe {
	for _, r := range recipes {
		if r.name == name {
			return r
		}
	}
	panic("no recipe " + name)
}

func write(conn *wire.Conn, path string) acquire { return rwlock.New(locks.On(conn), path).Lock }

func read(conn *wire.Conn, path string) acquire { return rwlock.New(locks.On(conn), path).RLock }

func reenter(conn *wire.Conn, path string) acquire { return reentrant.New(locks.On(conn), path).Lock }

func permit(conn *wire.Conn, path string) acquire {
	return semaphore.New(locks.On(conn), path, 1).Locker(1).Lock
}

// several takes the lock and another one.
func several(conn *wire.Conn, path string) acquire {
	c := locks.On(conn)
	return zklocks.All(rwlock.New(c, path+"-besides"), rwlock.New(c, path)).Lock
}

func candidacy(conn *wire.Conn, path string) acquire {
	return leader.New(locks.On(conn), path).Campaign
}

// nodeOf is the node that a hold's guard checks.
func nodeOf(h *zklocks.Hold) string { return h.Guard()[0].(*zk.CheckVersionRequest).Path }
