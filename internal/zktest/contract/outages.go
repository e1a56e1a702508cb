package contract

import (
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zktest"
)

var outages = []scenario{
	{"holders and waiters survive a restart of the server", restarted, 0},
	{"on another connection a disconnect is a loss, and the node is deleted", foreignLoss, 0},
	{"on another connection a disconnect within the grace is no loss", foreignGrace, 0},
	{"on another connection a cut at the create or the delete leaves nothing", foreignCut, 0},
}

func restarted(s *scene) {
	server := zktest.Standalone(s, zktest.Options{})
	s = sceneAt(s.T, s.r, server.Addr())
	holder, waiter := s.client(), s.client()
	h := holder.block()
	lost, ctx := h.Lost(), h.Context(s.ctx)
	a := waiter.wait(2)
	s.must(server.Restart())
	holder.catchUp()
	waiter.catchUp()
	if !h.Held() || closed(lost) || ctx.Err() != nil {
		s.Error("lost by a restart within the session")
	}
	s.must(h.Verify(s.ctx))
	a.waits()
	s.inLine(2)
	s.unlock(h)
	got := a.granted()
	if got.Token() <= h.Token() {
		s.Errorf("token %d after %d", got.Token(), h.Token())
	}
	s.unlock(got)
	s.empty()
}

func foreignLoss(s *scene) {
	c, next := s.foreignBehind(session, 0), s.client()
	h := c.block()
	ctx := h.Context(s.ctx)
	a := next.wait(2)
	c.proxy.Refuse()
	s.lost(h)
	s.inLine(2) // the session lives, and so does the node
	next.catchUp()
	a.waits()
	s.must(c.proxy.Accept())
	s.unlock(a.granted())
	s.over(h, ctx)
	s.unlock(c.lock())
}

func foreignGrace(s *scene) {
	const grace = 5 * time.Second
	c := s.foreignBehind(session, grace)
	h := c.lock()
	lost := h.Lost()
	c.proxy.Cut()
	c.catchUp() // the client takes a second
	if !h.Held() || closed(lost) {
		s.Error("lost within the grace")
	}
	s.must(h.Verify(s.ctx))

	gone := time.Now()
	c.proxy.Refuse()
	s.lost(h)
	if after := time.Since(gone); after < grace-100*time.Millisecond {
		s.Errorf("lost after %v", after)
	}
	s.must(c.proxy.Accept())
	s.empty()
	s.is(h.Unlock(s.ctx), hold.ErrLost)
}

func foreignCut(s *scene) {
	c := s.foreignBehind(session, time.Minute)
	s.unlock(c.lock())
	for _, op := range []zktest.Op{zktest.CreateOp, zktest.DeleteOp} {
		f := c.proxy.Next(op, zktest.CutAfterCommit)
		h := c.lock()
		s.inLine(1)
		s.unlock(h)
		s.emptyNow()
		if !closed(f.Fired()) {
			s.Errorf("nothing cut at the %v", op)
		}
	}
}
