package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
)

var observing = []scenario{
	{"an observer is notified of a lock that was free", observedFree, 0},
	{"an observer is notified of the wait", observedWait, 0},
	{"an observer is notified of calls that fail", observedFailure, 0},
	{"an observer is notified of retries", observedRetry, 0},
	{"an observer is not notified of retries that are not sent", observedOutage, 0},
}

// observed returns a client with an observer.
func (c *client) observed() *Events {
	e := NewEvents(c)
	c.Locker = c.on(c.conn, zklocks.WithObserver(e.Observer()))
	return e
}

// about asserts the fields that each event of a call or a hold has; a call has the token 0.
func (s *scene) about(l observe.LockInfo, token int64) {
	s.Helper()
	permits := 1
	if s.r.Kind == observe.KindPermits {
		permits = s.r.Nodes
	}
	if l.Path != s.Path || l.Kind != s.r.Kind || l.Permits != permits || strings.HasPrefix(l.Node, "_c_") != (token != 0) || l.Token != token {
		s.Errorf("an event of %s, %s of %d permits, with token %d, is about %+v", s.Path, s.r.Kind, permits, token, l)
	}
}

func observedFree(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	c := s.behind()
	events := c.observed()
	slow, a := c.meets(proxy.CreateOp, proxy.HoldReply, c.Lock)
	asked := time.Now()
	s.about(Next[observe.Called](events, 1).LockInfo, 0)
	s.Pass(time.Second)
	answered := time.Now()
	slow.Release()
	h := a.Granted()
	g := Next[observe.Granted](events, 1)
	s.about(g.LockInfo, h.Token())
	if g.Joined {
		s.Errorf("granted: %+v", g)
	}
	s.Lasted("the wait", g.Waited, answered.Sub(asked), a.At.Sub(a.Began))
	c.catchUp()
	s.Pass(2 * time.Second)
	least := time.Since(a.At)
	s.release(h)
	most := time.Since(answered)
	r := Next[observe.Released](events, 1)
	s.about(r.LockInfo, h.Token())
	s.Lasted("the hold", r.Held, least, most)
	s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
	h, err := c.TryLock(s.Ctx)
	s.Must(err)
	Next[observe.Granted](events, 2)
	s.release(h)
	Next[observe.Released](events, 2)
	if n := len(Of[any](events)); n != 6 {
		s.Errorf("%d events: %+v", n, Of[any](events))
	}
}

// ahead returns how many nodes must be deleted before the turn of a member that has so many members
// ahead.
func (s *scene) ahead(members int) int { return (members-1)*s.r.Nodes + 1 }

func observedWait(s *scene) {
	holder, second, third, c := s.client(), s.client(), s.client(), s.client()
	events := c.observed()
	h := holder.block()
	b := second.waitToBlock(2)
	d := third.waitToBlock(3)
	a := c.wait(4)
	began := time.Now()
	q := Next[observe.Queued](events, 1)
	if q.Ahead != s.ahead(3) {
		s.Errorf("%d ahead, want %d", q.Ahead, s.ahead(3))
	}
	c.catchUp() // the waiter watches the node ahead
	d.Stop()
	c.catchUp()
	b.Stop()
	a.Waits()
	s.Pass(time.Second)
	least := time.Since(began)
	s.release(h)
	got := a.Granted()
	s.about(q.LockInfo, got.Token())
	g := Next[observe.Granted](events, 1)
	if g.Joined || g.LockInfo != q.LockInfo {
		s.Errorf("granted after %v: %+v", least, g)
	}
	Next[observe.Queued](events, 1) // later changes of the position are not reported
	s.Lasted("the wait", g.Waited, least, a.At.Sub(a.Began))
	s.release(got)
	events.Balanced()
}

func observedFailure(s *scene) {
	holder, c := s.client(), s.client()
	events := c.observed()
	h := holder.block()
	_, err := c.TryLock(s.Ctx)
	s.Is(err, zklocks.ErrBusy)
	f := Next[observe.Failed](events, 1)
	s.about(f.LockInfo, 0)
	if f.Cause != err || len(Of[observe.Called](events)) != 1 || len(Of[observe.Queued](events)) != 0 {
		s.Errorf("a call that does not wait: %+v", Of[any](events))
	}
	a := c.wait(2)
	Next[observe.Queued](events, 1)
	s.about(Next[observe.Called](events, 2).LockInfo, 0)
	least := time.Now()
	c.catchUp()
	s.Pass(time.Second)
	waited := time.Since(least)
	a.Stop()
	f = Next[observe.Failed](events, 2)
	s.about(f.LockInfo, 0)
	s.Is(f.Cause, context.Canceled)
	if f.Cause != a.Err {
		s.Errorf("the cause is %v, and the call has returned %v", f.Cause, a.Err)
	}
	s.Lasted("the wait", f.Waited, waited, a.At.Sub(a.Began))
	s.release(h)
	events.Balanced()
}

func observedRetry(s *scene) {
	c, holder := s.behind(), s.client()
	events := c.observed()
	s.release(c.lock())
	for _, cut := range []struct {
		op   proxy.Op
		name string
	}{
		{proxy.CreateOp, "create"},
		{proxy.ListOp, "list"},
		{proxy.DeleteOp, "delete"},
	} {
		h := holder.block()
		f := c.proxy.Where(func(r proxy.Request) bool { // each of several locks has its own observers
			return r.Is(cut.op) && slices.ContainsFunc(r.Paths, func(path string) bool { return path == s.Dir || strings.HasPrefix(path, s.Dir+"/") })
		}, 1, proxy.CutBefore)
		a := c.wait(2)
		c.catchUp()
		s.release(h)
		s.release(a.Granted())
		s.Fired(f)
		told := false
		for _, r := range Of[observe.Retried](events) {
			told = told || r.Op == cut.name
			if r.Path != s.Path || r.Cause == nil || errors.Is(r.Cause, context.Canceled) {
				s.Errorf("%+v", r)
			}
		}
		if !told {
			s.Errorf("no event reports a %s that was cut: %+v", cut.name, Of[observe.Retried](events))
		}
	}
	events.Balanced()
}

// A call that ends before a server can be reached again has retried nothing.
func observedOutage(s *scene) {
	c, holder := s.behind(), s.client()
	s.release(c.lock())
	events := c.observed()
	h := holder.block()
	f, a := c.meets(proxy.ListOp, proxy.HoldRequest, c.Lock)
	c.proxy.Refuse()
	c.proxy.Cut()
	f.Cancel()
	c.offline()
	s.Pass(100 * time.Millisecond) // a retry would be reported after a few milliseconds
	a.Stop()
	if retried := Of[observe.Retried](events); len(retried) > 0 {
		s.Errorf("told of requests that were not sent: %+v", retried)
	}
	s.Must(c.proxy.Accept())
	c.catchUp()
	s.inLine(1)
	s.release(h)
}
