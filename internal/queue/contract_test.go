package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

func TestMain(m *testing.M) { contract.Main(m) }

// What recipes promise is mostly the work of this package, so its own tests play their contract, too:
// with several locks in one transaction, with readers that share a node, and with several permits.
func TestContract(t *testing.T) {
	t.Run("several", func(t *testing.T) {
		contract.Run(t, contract.Recipe{
			Package: "zklocks", Lock: "lock", TryLock: "try lock", Kind: observe.KindWrite,
			New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
				m := rwlock.New(conn, path, options[rwlock.Option](common)...)
				l := zklocks.All(m, reentrant.New(conn, path+"-beside"))
				return contract.Locker{Locker: l, Block: l.Lock, Queue: func(ctx context.Context) ([]zklocks.Member, error) {
					members, err := m.Queue(ctx)
					if err != nil {
						err = fmt.Errorf("zklocks: %w", err)
					}
					return members, err
				}}
			},
			Beside: "-beside", Nodes: 1, Announces: true, Markers: true, Requests: 2, Behind: 6,
		})
	})
	t.Run("readers", func(t *testing.T) {
		read := func(conn *zklocks.Conn, path string, opts ...rwlock.Option) contract.Locker {
			m := rwlock.New(conn, path, opts...)
			return contract.Locker{Locker: m.RLocker(), Block: m.Lock, Queue: m.Queue}
		}
		contract.Run(t, contract.Recipe{
			Package: "rwlock", Lock: "read lock", TryLock: "try read lock", Kind: observe.KindRead, Block: observe.KindWrite,
			New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
				return read(conn, path, options[rwlock.Option](common)...)
			},
			Options: map[string]func(*zklocks.Conn, string) contract.Locker{
				"idle": func(conn *zklocks.Conn, path string) contract.Locker {
					return read(conn, path, rwlock.WithMaxIdle(time.Minute), rwlock.WithHandoff(2))
				},
			},
			Nodes: 1, Shared: true, Joins: true, Requests: 2, Behind: 4,
		})
	})
	t.Run("permits", func(t *testing.T) {
		contract.Run(t, contract.Recipe{
			Package: "semaphore", Lock: "acquire", TryLock: "try acquire", Kind: observe.KindPermits,
			New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
				s := semaphore.New(conn, path, 3, options[semaphore.Option](common)...)
				l := s.Locker(2)
				return contract.Locker{Locker: l, Block: l.Lock, Queue: s.Queue}
			},
			Below: "/queue", Stored: "3", Nodes: 2, Requests: 2, Behind: 4,
		})
	})
}

// options returns common options as those of a recipe.
func options[O any](common []zklocks.Option) []O {
	var opts []O
	for _, o := range common {
		opts = append(opts, o.(O))
	}
	return opts
}
