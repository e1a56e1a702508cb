package semaphore_test

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test/contract"
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
