package rwlock_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Each write into a holder's node is an event that does not end the hold. After many writes the
// holder reads its node more and more rarely.
func TestManyWritesIntoTheNodeOfALongHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s)
		h, err := c.Lock(s.Ctx)
		s.Must(err)
		if !h.Held() {
			s.Error(h.Err())
		}
		for range 60 {
			_, err := s.Witness.Set(last(s), nil, -1)
			s.Must(err)
			s.Settle()
		}
		before := c.proxy.Seen(proxy.ReadOp)
		time.Sleep(time.Minute) // virtual
		if n := c.proxy.Seen(proxy.ReadOp) - before; n > 5 {
			s.Errorf("%d reads in a minute", n)
		}
		unlock(s, h)
		s.Empty()
	})
}
