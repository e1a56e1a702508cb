package contract

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var replies = []scenario{
	{"a free lock is taken and given back, whichever request is cut or throttled", faultsWhenFree, 0},
	{"a waiter gets its turn, whichever request is cut or throttled", faultsInLine, 0},
	{"a create whose reply was lost and whose caller has left is undone", createAbandoned, 0},
	{"a repeated delete does not delete the next hold", deleteRepeated, exclusive},
	{"a Release goes on through an outage", releasedOffline, 0},
}

var (
	cuts = []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit}
	// An overloaded server drops requests, with an error.
	disturbances = append(slices.Clone(cuts), proxy.Answer(-127))
)

// cut is a fault that signals as soon as the proxy has the request, because the client may be done
// before the cut of the connection is known.
type cut struct {
	*proxy.Fault
	met atomic.Bool
}

func (c *client) cutAt(op proxy.Op, n int, action proxy.Action) *cut {
	f, seen := new(cut), 0
	f.Fault = c.proxy.Where(func(r proxy.Request) bool {
		if !r.Is(op) {
			return false
		}
		if seen++; seen == n {
			f.met.Store(true)
		}
		return true
	}, n, action)
	return f
}

// eachRequest plays with each action at the first request of each kind, at the second, and so on,
// until a play meets none. It asserts that some kinds were met.
func (s *scene) eachRequest(ops, must []proxy.Op, play func(action proxy.Action, op proxy.Op, n int) (met bool)) {
	s.Helper()
	for _, action := range disturbances {
		for _, op := range ops {
			n := 1
			for play(action, op, n) {
				n++
			}
			if n == 1 && slices.Contains(must, op) {
				s.Errorf("nothing was done to a %v", op)
			}
		}
	}
}

// faultsWhenFree injects the faults, in turn, at each request of a Lock and its Release. The
// session lives on, so both must succeed.
func faultsWhenFree(s *scene) {
	c, other := s.behind(), s.client()
	ops := []proxy.Op{proxy.CreateOp, proxy.ReadOp, proxy.ListOp, proxy.DeleteOp}
	s.eachRequest(ops, []proxy.Op{proxy.CreateOp, proxy.DeleteOp}, func(action proxy.Action, op proxy.Op, n int) bool {
		s.move(test.Path(s))
		c, other := c.again(), other.again()
		f := c.cutAt(op, n, action)
		defer f.Cancel()
		h := c.lock()
		s.inLine(1)
		s.Must(h.Verify(s.Ctx))
		if !s.r.Shared {
			_, err := other.TryLock(s.Ctx)
			s.Is(err, zklocks.ErrBusy)
		}
		if err := h.Release(s.Ctx); err != nil {
			s.Errorf("%v, %v %d: %v", action, op, n, err)
		}
		s.EmptyNow()
		return f.met.Load()
	})
}

// faultsInLine injects the faults at each request of a waiter whose turn comes.
func faultsInLine(s *scene) {
	c, holder := s.behind(), s.client()
	s.release(c.lock())
	ops := []proxy.Op{proxy.CreateOp, proxy.ListOp, proxy.ReadOp, proxy.DeleteOp}
	s.eachRequest(ops, ops, func(action proxy.Action, op proxy.Op, n int) bool {
		h := holder.block()
		f := c.cutAt(op, n, action)
		defer f.Cancel()
		a := c.wait(2)
		c.waits(a)
		s.inLine(2)
		s.release(h)
		got := a.Granted()
		s.inLine(1)
		if err := got.Release(s.Ctx); err != nil {
			s.Errorf("%v, %v %d: %v", action, op, n, err)
		}
		s.EmptyNow()
		return f.met.Load()
	})
}

func createAbandoned(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll)) // the server may delete a container right before the create that the test is about
	c := s.behind()
	s.release(c.lock())
	for range 3 {
		f := c.proxy.Next(proxy.CreateOp, proxy.CutAfterCommit)
		back := c.proxy.Next(proxy.ConnectOp, proxy.HoldRequest) // so no search for the node is answered
		a := c.begin(c.Lock)
		s.Fired(f)
		c.proxy.Refuse()
		back.Cancel()
		s.inLine(1)
		a.Stop()
		if a.Err == nil {
			s.Fatal("granted without an answer")
		}
		s.Must(c.proxy.Accept())
		s.Empty()
	}
}

func deleteRepeated(s *scene) {
	c := s.behind()
	h := c.lock()
	f := c.proxy.Next(proxy.DeleteOp, proxy.CutAfterCommit)
	dead, cancel := context.WithCancel(s.Ctx)
	cancel()
	_ = h.Release(dead)
	next := c.again().lock()
	s.Fired(f)
	c.catchUp()
	s.Must(next.Verify(s.Ctx))
	s.inLine(1)
	s.release(next)
}

func releasedOffline(s *scene) {
	c := s.behind()
	h := c.lock()
	c.proxy.Refuse()
	a := c.ask(h.Release)
	s.inLine(1) // takes longer than the call of c needs to begin its wait
	a.Waits()
	s.Must(c.proxy.Accept())
	a.Ended()
	s.Must(a.Err)
	s.EmptyNow()
}
