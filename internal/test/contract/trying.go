package contract

import (
	"sync"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var trying = []scenario{
	{"TryLock on a taken lock is busy and writes nothing", tryTaken, 0},
	{"TryLock does not overtake a waiter", tryBehind, 0},
	{"of many tries at once one succeeds", tryMany, exclusive},
}

func tryTaken(s *scene) {
	c := s.behind()
	h := s.client().block()
	for range 5 {
		_, err := c.TryLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
	}
	for _, op := range []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.SetOp, proxy.MkdirOp} {
		if n := c.proxy.Seen(op); n != 0 {
			s.Errorf("%d requests to %v", n, op)
		}
	}
	s.Must(h.Verify(s.Ctx))
	s.unlock(h)
	got, err := c.TryLock(s.Ctx)
	s.Must(err)
	s.unlock(got)
}

// tryBehind queues a waiter behind a holder. If the lock can be shared, the holder does not exclude
// the client that tries.
func tryBehind(s *scene) {
	holder, waiter, c := s.client(), s.client(), s.client()
	h := holder.lock()
	a := waiter.waitToBlock(2)
	_, err := c.TryLock(s.Ctx)
	s.Is(err, zklocks.ErrBusy)
	s.inLine(2)
	s.unlock(h)
	s.unlock(a.Granted())
}

func tryMany(s *scene) {
	c := s.client()
	var mu sync.Mutex
	var holds []*zklocks.Hold
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			h, err := c.TryLock(s.Ctx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				holds = append(holds, h)
				return
			}
			s.Is(err, zklocks.ErrBusy)
		})
	}
	all.Wait()
	if len(holds) != 1 {
		s.Errorf("%d tries succeeded, want 1", len(holds))
	}
	s.inLine(len(holds))
	for _, h := range holds {
		s.unlock(h)
	}
}
