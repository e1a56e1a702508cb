package rwlock_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

func TestMain(m *testing.M) { contract.Main(m) }

func TestWriteLock(t *testing.T) { contract.Run(t, writeLock) }

func TestWriteLockOnRealServers(t *testing.T) { contract.RunReal(t, writeLock) }

var writeLock = contract.Recipe{
	Package: "rwlock", Lock: "lock", TryLock: "try lock", Kind: observe.KindWrite,
	New: func(conn *zklocks.Conn, path string, opts ...zklocks.Option) contract.Locker {
		m := rwlock.New(conn, path, options(opts)...)
		return contract.Locker{Locker: m, Block: m.Lock, Queue: m.Queue}
	},
	Options: map[string]func(*zklocks.Conn, string) contract.Locker{
		"handoff":          writes(rwlock.WithHandoff(2)),
		"idle":             writes(rwlock.WithMaxIdle(time.Minute)),
		"handoff and idle": writes(rwlock.WithHandoff(2), rwlock.WithMaxIdle(time.Minute)),
		"Curator's names":  writes(rwlock.WithCuratorNames(), rwlock.WithMaxIdle(time.Minute)),
	},
	Nodes: 1, Announces: true, Markers: true, Requests: 2, Behind: 4,
}

func writes(opts ...rwlock.Option) func(*zklocks.Conn, string) contract.Locker {
	return func(conn *zklocks.Conn, path string) contract.Locker {
		m := rwlock.New(conn, path, opts...)
		return contract.Locker{Locker: m, Block: m.Lock, Queue: m.Queue}
	}
}

func TestReadLock(t *testing.T) { contract.Run(t, readLock) }

func TestReadLockOnRealServers(t *testing.T) { contract.RunReal(t, readLock) }

// A reader waits for writers.
var readLock = contract.Recipe{
	Package: "rwlock", Lock: "read lock", TryLock: "try read lock", Kind: observe.KindRead, Block: observe.KindWrite,
	New: func(conn *zklocks.Conn, path string, opts ...zklocks.Option) contract.Locker {
		m := rwlock.New(conn, path, options(opts)...)
		return contract.Locker{Locker: m.RLocker(), Block: m.Lock, Queue: m.Queue}
	},
	Options: map[string]func(*zklocks.Conn, string) contract.Locker{
		"idle": func(conn *zklocks.Conn, path string) contract.Locker {
			m := rwlock.New(conn, path, rwlock.WithMaxIdle(time.Minute))
			return contract.Locker{Locker: m.RLocker(), Block: m.Lock, Queue: m.Queue}
		},
	},
	Nodes: 1, Shared: true, Joins: true, Requests: 2, Behind: 4,
}

func options(common []zklocks.Option) []rwlock.Option {
	var opts []rwlock.Option
	for _, o := range common {
		opts = append(opts, o)
	}
	return opts
}
