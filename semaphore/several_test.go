package semaphore_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/semaphore"
)

func TestThreeOfFourPermitsLeaveOne(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		// Connect both first: connecting takes time, and the holds must overlap.
		holder, other := newClient(s, 4), newClient(s, 4)
		h := holder.acquire(3)
		s.InLine(3)
		a := other.begin(3)
		s.Settle()
		a.Waits()
		s.InLine(6)
		s.Must(h.Verify(s.Ctx))
		release(s, h)
		h = a.Granted()
		s.InLine(3)
		release(s, h)
		s.Empty()
	})
}

// A request that no server accepts is an error at once, also where the product of its size
// overflows an int.
func TestAHugeNumberOfPermitsIsAnError(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for _, n := range []int{100_000, math.MaxInt / 2, math.MaxInt/2 + 1, math.MaxInt - 1, math.MaxInt} {
			for i := range 4 { // the length of the path decides which size results from the overflow
				path := fmt.Sprintf("%s%s%d", s.Path, strings.Repeat("b", i), n)
				_, err := semaphore.New(locks.On(s.Connect()), path, math.MaxInt).Acquire(s.Ctx, n)
				if err == nil || !strings.Contains(err.Error(), "more than a server takes") {
					s.Errorf("%d permits: %v", n, err)
				}
			}
		}
	})
}
