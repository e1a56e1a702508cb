package semaphore_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/semaphore"
)

func TestMain(m *testing.M) { contract.Main(m) }

func TestOnePermit(t *testing.T) { contract.Run(t, recipe(1, 1)) }

func TestOnePermitOnRealServers(t *testing.T) { contract.RunReal(t, recipe(1, 1)) }

// Two holders of two permits do not fit into three.
func TestTwoOfThreePermits(t *testing.T) { contract.Run(t, recipe(2, 3)) }

func TestTwoOfThreePermitsOnRealServers(t *testing.T) { contract.RunReal(t, recipe(2, 3)) }

func recipe(n, permits int) contract.Recipe {
	return contract.Recipe{
		Package: "semaphore", Lock: "acquire", TryLock: "try acquire", Kind: observe.Permits,
		New: func(conn *zk.Conn, path string, s contract.Settings) contract.Locker {
			return acquirer{semaphore.New(conn, path, permits, options(s)...), n}
		},
		Below: "/queue", Stored: strconv.Itoa(permits), Nodes: n, Requests: 2, Behind: 4,
	}
}

func options(s contract.Settings) []semaphore.Option {
	var opts []semaphore.Option
	if s.ACL != nil {
		opts = append(opts, semaphore.WithACL(s.ACL))
	}
	if s.Data != nil {
		opts = append(opts, semaphore.WithData(s.Data))
	}
	if s.Grace != 0 {
		opts = append(opts, semaphore.WithGrace(s.Grace))
	}
	if s.Observer != nil {
		opts = append(opts, semaphore.WithObserver(*s.Observer))
	}
	return opts
}

// acquirer takes n permits.
type acquirer struct {
	*semaphore.Semaphore
	n int
}

func (l acquirer) Lock(ctx context.Context) (contract.Hold, error) {
	return hold(l.Acquire(ctx, l.n))
}

func (l acquirer) TryLock(ctx context.Context) (contract.Hold, error) {
	return hold(l.TryAcquire(ctx, l.n))
}

func (l acquirer) Block(ctx context.Context) (contract.Hold, error) { return l.Lock(ctx) }

func (l acquirer) Queue(ctx context.Context) ([]contract.Member, error) {
	members, err := l.Semaphore.Queue(ctx)
	list := make([]contract.Member, len(members))
	for i, q := range members {
		list[i] = contract.Member{
			Name: q.Name, Holding: q.Holding, Since: q.Since, Session: q.Session, Token: q.Token, Data: q.Data,
			Host: q.Host, Pid: q.Pid,
		}
	}
	return list, err
}

type unlocker struct{ *semaphore.Hold }

func (h unlocker) Unlock(ctx context.Context) error { return h.Release(ctx) }

func hold(h *semaphore.Hold, err error) (contract.Hold, error) {
	return contract.As(unlocker{h}, err)
}
