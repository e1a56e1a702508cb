package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/reentrant"
)

// An idle lock is taken over by its next owner, who may enter it again.
func TestAnIdleMutexIsTakenOverWithoutARequest(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, p := s.Behind()
		requests := func() int64 { return p.Seen(proxy.AnyOp) - p.Seen(proxy.CheckOp) }
		m := reentrant.New(locks.On(conn), s.Path, reentrant.WithMaxIdle(20*time.Second))
		twice := func() (token int64) {
			s.Must(zklocks.Do(s.Ctx, m.Lock, func(ctx context.Context, outer *zklocks.Hold) error {
				return zklocks.Do(ctx, m.Lock, func(ctx context.Context, inner *zklocks.Hold) error {
					if token = inner.Token(); m.HoldCount() != 2 || token != outer.Token() {
						s.Errorf("%d holds", m.HoldCount())
					}
					return nil
				})
			}))
			return token
		}
		for range 3 {
			twice()
		}
		s.InLine(1)
		token := twice()
		before := requests()
		for range 100 {
			if twice() != token || m.HoldCount() != 0 {
				s.Fatal("another node")
			}
		}
		if n := requests() - before; n > 1 { // the context of a hold has the node watched
			s.Errorf("%d requests", n)
		}

		// All has nodes of its own, and an idle lock of its process is not ahead of it.
		h, err := zklocks.All(m).TryLock(s.Ctx)
		s.Must(err)
		if m.HoldCount() != 1 {
			s.Errorf("%d holds", m.HoldCount())
		}
		s.Must(h.Release(s.Ctx))
		s.Empty()
	})
}
