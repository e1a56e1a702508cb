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

// While one client holds three of four permits no other client gets three.
func TestThreeOfFourPermitsLeaveOne(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		// Connect both first: connecting takes time, and they must overlap.
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

// A request that no server takes is an error at once, also where its size is more than an int.
func TestAHugeNumberOfPermitsIsAnError(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for _, n := range []int{100_000, math.MaxInt / 2, math.MaxInt/2 + 1, math.MaxInt - 1, math.MaxInt} {
			for i := range 4 { // the size of one node decides what is left of the product
				path := fmt.Sprintf("%s%s%d", s.Path, strings.Repeat("b", i), n)
				_, err := semaphore.New(locks.On(s.Connect()), path, math.MaxInt).Acquire(s.Ctx, n)
				if err == nil || !strings.Contains(err.Error(), "more than a server takes") {
					s.Errorf("%d permits: %v", n, err)
				}
			}
		}
	})
}
