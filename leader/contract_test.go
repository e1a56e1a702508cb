package leader_test

import (
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
)

func TestMain(m *testing.M) { contract.Main(m) }

func TestElection(t *testing.T) { contract.Run(t, election) }

func TestElectionOnRealServers(t *testing.T) { contract.RunReal(t, election) }

var election = contract.Recipe{
	Package: "leader", Lock: "campaign", TryLock: "try to campaign", Kind: observe.KindMutex,
	New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
		var opts []leader.Option
		for _, o := range common {
			opts = append(opts, o)
		}
		l := leader.Locker{Election: leader.New(conn, path, opts...)}
		return contract.Locker{Locker: l, Block: l.Lock, Queue: l.Queue}
	},
	Nodes: 1, Markers: true, Requests: 2, Behind: 4,
}
