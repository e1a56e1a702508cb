package semaphore_test

import (
	"strconv"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/semaphore"
)

func TestMain(m *testing.M) { contract.Main(m) }

func TestOnePermit(t *testing.T) { contract.Run(t, recipe(1, 1)) }

func TestOnePermitOnRealServers(t *testing.T) { contract.RunReal(t, recipe(1, 1)) }

// Three permits are not enough for two holders of two permits.
func TestTwoOfThreePermits(t *testing.T) { contract.Run(t, recipe(2, 3)) }

func TestTwoOfThreePermitsOnRealServers(t *testing.T) { contract.RunReal(t, recipe(2, 3)) }

func recipe(n, permits int) contract.Recipe {
	return contract.Recipe{
		Package: "semaphore", Lock: "acquire", TryLock: "try acquire", Kind: observe.KindPermits,
		New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
			var opts []semaphore.Option
			for _, o := range common {
				opts = append(opts, o)
			}
			s := semaphore.New(conn, path, permits, opts...)
			l := s.Locker(n)
			return contract.Locker{Locker: l, Block: l.Lock, Queue: s.Queue}
		},
		Below: "/queue", Stored: strconv.Itoa(permits), Nodes: n, Requests: 2, Behind: 4,
	}
}
