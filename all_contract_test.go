package zklocks_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

func TestAll(t *testing.T) { contract.Run(t, two) }

func TestAllOnRealServers(t *testing.T) { contract.RunReal(t, two) }

// two takes a lock with the options of the scenario, and another without.
var two = contract.Recipe{
	Package: "zklocks", Lock: "lock", TryLock: "try lock", Kind: observe.KindWrite,
	New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
		var opts []rwlock.Option
		for _, o := range common {
			opts = append(opts, o)
		}
		m := rwlock.New(conn, path, opts...)
		l := zklocks.All(m, reentrant.New(conn, path+"-beside"))
		return contract.Locker{Locker: l, Block: l.Lock, Queue: func(ctx context.Context) ([]zklocks.Member, error) {
			members, err := m.Queue(ctx)
			if err != nil {
				err = fmt.Errorf("zklocks: %w", err)
			}
			return members, err
		}}
	},
	Beside: "-beside", Nodes: 1, Announces: true, Marks: true, Requests: 2, Behind: 6,
}
