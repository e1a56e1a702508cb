package reentrant_test

import (
	"context"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/reentrant"
)

// Two processes call TryLock at once. Both see a free lock, and both create a node. The second
// returns ErrBusy and deletes its node.
func TestATryThatCameSecondLeavesNothing(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, p := s.Behind()
		late := reentrant.New(locks.On(conn), s.Path)
		first := reentrant.New(locks.On(s.Connect()), s.Path)
		looks := p.Next(proxy.ListOp, proxy.HoldReply)
		creates := p.Seen(proxy.CreateOp)
		try := contract.Begin(s, s.Ctx, func(ctx context.Context) (*zklocks.Hold, error) { return late.TryLock(ctx) })
		<-looks.Fired()
		h, err := first.TryLock(s.Ctx)
		s.Must(err)
		looks.Release()
		s.Is(try.Failed(), zklocks.ErrBusy)
		if n := p.Seen(proxy.CreateOp) - creates; n != 1 {
			s.Errorf("the second try has made %d nodes: this test has shown nothing", n)
		}
		s.InLine(1)
		s.Must(h.Verify(s.Ctx))
		s.Must(h.Release(s.Ctx))
		s.Empty()
		h, err = late.TryLock(s.Ctx)
		s.Must(err)
		s.Must(h.Release(s.Ctx))
		s.Empty()
	})
}
