package rwlock_test

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

func TestMain(m *testing.M) { contract.Main(m) }

func TestWriteLock(t *testing.T) { contract.Run(t, writeLock) }

func TestWriteLockOnRealServers(t *testing.T) { contract.RunReal(t, writeLock) }

var writeLock = contract.Recipe{
	Package: "rwlock", Lock: "lock", TryLock: "try lock", Kind: observe.Write,
	New: func(conn *zk.Conn, path string, s contract.Settings) contract.Locker {
		return writer{rwlock.New(conn, path, options(s)...)}
	},
	Nodes: 1, Announces: true, Marks: true, Requests: 2, Behind: 5,
}

func TestReadLock(t *testing.T) { contract.Run(t, readLock) }

func TestReadLockOnRealServers(t *testing.T) { contract.RunReal(t, readLock) }

var readLock = contract.Recipe{
	Package: "rwlock", Lock: "read lock", TryLock: "try read lock", Kind: observe.Read,
	New: func(conn *zk.Conn, path string, s contract.Settings) contract.Locker {
		return reader{rwlock.New(conn, path, options(s)...)}
	},
	Nodes: 1, Shared: true, Joins: true, Requests: 2, Behind: 4,
}

func options(s contract.Settings) []rwlock.Option {
	var opts []rwlock.Option
	if s.ACL != nil {
		opts = append(opts, rwlock.WithACL(s.ACL))
	}
	if s.Data != nil {
		opts = append(opts, rwlock.WithData(s.Data))
	}
	if s.Grace != 0 {
		opts = append(opts, rwlock.WithGrace(s.Grace))
	}
	if s.Observer != nil {
		opts = append(opts, rwlock.WithObserver(*s.Observer))
	}
	return opts
}

type writer struct{ *rwlock.RWMutex }

func (l writer) Lock(ctx context.Context) (contract.Hold, error) {
	return contract.As(l.RWMutex.Lock(ctx))
}

func (l writer) TryLock(ctx context.Context) (contract.Hold, error) {
	return contract.As(l.RWMutex.TryLock(ctx))
}

func (l writer) Block(ctx context.Context) (contract.Hold, error) { return l.Lock(ctx) }

func (l writer) Queue(ctx context.Context) ([]contract.Member, error) { return queue(l.RWMutex, ctx) }

// reader waits for writers.
type reader struct{ *rwlock.RWMutex }

func (l reader) Lock(ctx context.Context) (contract.Hold, error) {
	return contract.As(l.RWMutex.RLock(ctx))
}

func (l reader) TryLock(ctx context.Context) (contract.Hold, error) {
	return contract.As(l.RWMutex.TryRLock(ctx))
}

func (l reader) Block(ctx context.Context) (contract.Hold, error) {
	return contract.As(l.RWMutex.Lock(ctx))
}

func (l reader) Queue(ctx context.Context) ([]contract.Member, error) { return queue(l.RWMutex, ctx) }

func queue(m *rwlock.RWMutex, ctx context.Context) ([]contract.Member, error) {
	members, err := m.Queue(ctx)
	list := make([]contract.Member, len(members))
	for i, q := range members {
		list[i] = contract.Member{
			Name: q.Name, Holding: q.Holding, Since: q.Since, Session: q.Session, Token: q.Token, Data: q.Data,
			Host: q.Host, Pid: q.Pid,
		}
	}
	return list, err
}
