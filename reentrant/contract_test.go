package reentrant_test

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
)

func TestMain(m *testing.M) { contract.Main(m) }

func TestMutex(t *testing.T) { contract.Run(t, mutex) }

func TestMutexOnRealServers(t *testing.T) { contract.RunReal(t, mutex) }

var mutex = contract.Recipe{
	Package: "reentrant", Lock: "lock", TryLock: "try lock", Kind: observe.Mutex,
	New: func(conn *zk.Conn, path string, s contract.Settings) contract.Locker {
		return locker{reentrant.New(conn, path, options(s)...)}
	},
	Nodes: 1, Marks: true, Requests: 2, Behind: 4,
}

func options(s contract.Settings) []reentrant.Option {
	var opts []reentrant.Option
	if s.ACL != nil {
		opts = append(opts, reentrant.WithACL(s.ACL))
	}
	if s.Data != nil {
		opts = append(opts, reentrant.WithData(s.Data))
	}
	if s.Grace != 0 {
		opts = append(opts, reentrant.WithGrace(s.Grace))
	}
	if s.Observer != nil {
		opts = append(opts, reentrant.WithObserver(*s.Observer))
	}
	return opts
}

type locker struct{ *reentrant.Mutex }

func (l locker) Lock(ctx context.Context) (contract.Hold, error) {
	return contract.As(l.Mutex.Lock(ctx))
}

func (l locker) TryLock(ctx context.Context) (contract.Hold, error) {
	return contract.As(l.Mutex.TryLock(ctx))
}

func (l locker) Block(ctx context.Context) (contract.Hold, error) { return l.Lock(ctx) }

func (l locker) Queue(ctx context.Context) ([]contract.Member, error) {
	members, err := l.Mutex.Queue(ctx)
	list := make([]contract.Member, len(members))
	for i, q := range members {
		list[i] = contract.Member{
			Name: q.Name, Holding: q.Holding, Since: q.Since, Session: q.Session, Token: q.Token, Data: q.Data,
			Host: q.Host, Pid: q.Pid,
		}
	}
	return list, err
}
