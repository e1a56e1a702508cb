package contract

import (
	"context"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zktest"
)

var replies = []scenario{
	{"a free lock is taken and given back through a cut at any step", cutWhenFree, 0},
	{"a waiter gets its turn through a cut at any step", cutInLine, 0},
	{"a create whose reply was lost and that nobody waits for is undone", createAbandoned, 0},
	{"a repeated delete does not delete the next hold", deleteRepeated, exclusive},
	{"an Unlock goes on through an outage", unlockedOffline, 0},
}

var cuts = []zktest.Action{zktest.CutBefore, zktest.CutOnSend, zktest.CutAfterCommit}

// cutWhenFree loses each request and each reply of a Lock and its Unlock in
// turn. The session lives on, so all must be well.
func cutWhenFree(s *scene) {
	c, other := s.behind(), s.client()
	for _, action := range cuts {
		times := make(map[zktest.Op]int)
		for _, op := range []zktest.Op{zktest.MkdirOp, zktest.CreateOp, zktest.ReadOp, zktest.ListOp, zktest.DeleteOp} {
			for n, met := 1, true; met; n++ {
				s.move(zktest.Path(s))
				c, other := c.again(), other.again()
				f := c.proxy.Nth(op, n, action)
				h := c.lock()
				s.inLine(1)
				s.must(h.Verify(s.ctx))
				if !s.r.Shared {
					_, err := other.TryLock(s.ctx)
					s.is(err, hold.ErrBusy)
				}
				if err := h.Unlock(s.ctx); err != nil {
					s.Errorf("%v, %v %d: %v", action, op, n, err)
				}
				s.emptyNow()
				if met = closed(f.Fired()); met {
					times[op]++
				}
				f.Cancel()
			}
		}
		s.struck(times, zktest.MkdirOp, zktest.CreateOp, zktest.DeleteOp)
	}
}

func cutInLine(s *scene) {
	c, holder := s.behind(), s.client()
	s.unlock(c.lock())
	for _, action := range cuts {
		times := make(map[zktest.Op]int)
		for _, op := range []zktest.Op{zktest.CreateOp, zktest.ListOp, zktest.ReadOp, zktest.DeleteOp} {
			for n, met := 1, true; met; n++ {
				h := holder.block()
				f := c.proxy.Nth(op, n, action)
				a := c.wait(2)
				c.catchUp()
				a.waits()
				s.inLine(2)
				s.unlock(h)
				got := a.granted()
				s.inLine(1)
				if err := got.Unlock(s.ctx); err != nil {
					s.Errorf("%v, %v %d: %v", action, op, n, err)
				}
				s.emptyNow()
				if met = closed(f.Fired()); met {
					times[op]++
				}
				f.Cancel()
			}
		}
		s.struck(times, zktest.CreateOp, zktest.ListOp, zktest.ReadOp, zktest.DeleteOp)
	}
}

func createAbandoned(s *scene) {
	c := s.behind()
	s.unlock(c.lock())
	for range 3 {
		f := c.proxy.Next(zktest.CreateOp, zktest.CutAfterCommit)
		back := c.proxy.Next(zktest.ConnectOp, zktest.HoldRequest) // no search for it is answered
		a := c.begin(c.Lock)
		zktest.Within(s, soon, "the reply is lost", func() { <-f.Fired() })
		s.inLine(1)
		a.stop()
		if a.err == nil {
			s.Fatal("granted without an answer")
		}
		back.Cancel()
		s.empty()
	}
}

func deleteRepeated(s *scene) {
	c := s.behind()
	h := c.lock()
	f := c.proxy.Next(zktest.DeleteOp, zktest.CutAfterCommit)
	dead, cancel := context.WithCancel(s.ctx)
	cancel()
	_ = h.Unlock(dead)
	next := c.again().lock()
	zktest.Within(s, soon, "the delete's reply is lost", func() { <-f.Fired() })
	c.catchUp()
	s.must(next.Verify(s.ctx))
	s.inLine(1)
	s.unlock(next)
}

func unlockedOffline(s *scene) {
	c := s.behind()
	h := c.lock()
	c.proxy.Refuse()
	a := c.begin(func(ctx context.Context) (Hold, error) { return nil, h.Unlock(ctx) })
	s.inLine(1) // takes longer than to ask
	a.waits()
	s.must(c.proxy.Accept())
	a.ended()
	s.must(a.err)
	s.emptyNow()
}
