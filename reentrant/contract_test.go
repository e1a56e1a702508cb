package reentrant_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
)

func TestMain(m *testing.M) { contract.Main(m) }

func TestMutex(t *testing.T) { contract.Run(t, mutex) }

func TestMutexOnRealServers(t *testing.T) { contract.RunReal(t, mutex) }

var mutex = contract.Recipe{
	Package: "reentrant", Lock: "lock", TryLock: "try lock", Kind: observe.KindMutex,
	New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
		var opts []reentrant.Option
		for _, o := range common {
			opts = append(opts, o)
		}
		m := reentrant.New(conn, path, opts...)
		return contract.Locker{Locker: m, Block: m.Lock, Queue: m.Queue}
	},
	Options: map[string]func(*zklocks.Conn, string) contract.Locker{
		"idle": func(conn *zklocks.Conn, path string) contract.Locker {
			m := reentrant.New(conn, path, reentrant.WithMaxIdle(time.Minute))
			return contract.Locker{Locker: m, Block: m.Lock, Queue: m.Queue}
		},
	},
	Nodes: 1, Markers: true, Requests: 2, Behind: 4, OwnServers: true,
}
