package contract

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/observe"
)

var observing = []scenario{
	{"an observer is told of a lock that was free", observedFree, 0},
	{"an observer is told of the wait and of each move", observedWait, 0},
	{"an observer is told of those who give up", observedQuitter, 0},
	{"an observer is told of those who lose their place", observedRequeue, 0},
	{"an observer is told why a hold was lost", observedLoss, 0},
	{"an observer is told at the unlock of a loss that nobody asked for", observedLateLoss, 0},
	{"an observer is told of orphans", observedOrphan, 0},
	{"an observer is told of a lost hold whose node lived on", observedSurvivor, 0},
	{"an observer is told of retries", observedRetry, 0},
}

// observed gives a client an observer.
func (c *client) observed() *Events {
	e := NewEvents(c.T)
	o := e.Observer()
	c.Locker = c.r.New(c.conn, c.Path, Settings{Observer: &o})
	return e
}

// about asserts what each event of a Lock says.
func (s *scene) about(l observe.Lock, token int64) {
	s.Helper()
	permits := 1
	if s.r.Kind == observe.Permits {
		permits = s.r.Nodes
	}
	if l.Path != s.Path || l.Kind != s.r.Kind || l.Permits != permits || !strings.HasPrefix(l.Node, "_c_") || l.Token != token {
		s.Errorf("an event of %s, %s of %d permits, with token %d, is about %+v", s.Path, s.r.Kind, permits, token, l)
	}
}

func observedFree(s *scene) {
	c := s.client()
	events := c.observed()
	began := time.Now()
	h := c.lock()
	g := Next[observe.Granted](events, 1)
	s.about(g.Lock, h.Token())
	if took := time.Since(began); g.Joined || g.Queued || g.Waited <= 0 || g.Waited > took {
		s.Errorf("granted within %v: %+v", took, g)
	}
	held := time.Now()
	c.catchUp()
	least := time.Since(held)
	s.unlock(h)
	r := Next[observe.Released](events, 1)
	s.about(r.Lock, h.Token())
	if r.Held < least || r.Held > time.Since(began) {
		s.Errorf("held for %v to %v: %+v", least, time.Since(began), r)
	}
	s.Is(h.Unlock(s.Ctx), hold.ErrReleased)
	h, err := c.TryLock(s.Ctx)
	s.Must(err)
	Next[observe.Granted](events, 2)
	s.unlock(h)
	Next[observe.Released](events, 2)
	if n := len(Of[any](events)); n != 4 {
		s.Errorf("%d events: %+v", n, Of[any](events))
	}
}

// ahead is how many nodes have to go when so many members stand in front.
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
	c.catchUp() // it watches the one in front
	d.Stop()
	if m := Next[observe.Moved](events, 1); m.Ahead != s.ahead(2) || m.Lock != q.Lock {
		s.Errorf("%+v, want %d ahead", m, s.ahead(2))
	}
	c.catchUp()
	b.Stop()
	if m := Next[observe.Moved](events, 2); m.Ahead != s.ahead(1) || m.Lock != q.Lock {
		s.Errorf("%+v, want %d ahead", m, s.ahead(1))
	}
	a.Waits()
	least := time.Since(began)
	s.unlock(h)
	got := a.Granted()
	s.about(q.Lock, got.Token())
	if g := Next[observe.Granted](events, 1); g.Joined || !g.Queued || g.Lock != q.Lock || g.Waited < least || g.Waited > time.Since(a.Began) {
		s.Errorf("granted after %v: %+v", least, g)
	}
	s.unlock(got)
	events.Balanced()
}

func observedQuitter(s *scene) {
	holder, c := s.client(), s.client()
	events := c.observed()
	h := holder.block()
	_, err := c.TryLock(s.Ctx)
	s.Is(err, hold.ErrBusy)
	if n := len(Of[any](events)); n != 0 {
		s.Errorf("%d events of somebody who does not wait", n)
	}
	a := c.wait(2)
	q := Next[observe.Queued](events, 1)
	least := time.Now()
	c.catchUp()
	waited := time.Since(least)
	a.Stop()
	l := Next[observe.Left](events, 1)
	s.Is(l.Cause, context.Canceled)
	if l.Lock != q.Lock || l.Waited < waited || l.Waited > time.Since(a.Began) {
		s.Errorf("%+v after %+v, %v", l, q, waited)
	}
	s.unlock(h)
	events.Balanced()
}

func observedRequeue(s *scene) {
	for _, away := range []func(*client){
		func(c *client) { s.kill(c.conn.SessionID()) },
		func(c *client) { zktest.Expire(s, c.conn) },
	} {
		holder, c := s.client(), s.client()
		events := c.observed()
		h := holder.block()
		a := c.wait(2)
		before := Next[observe.Queued](events, 1)
		away(c)
		again := Next[observe.Queued](events, 2)
		l := Next[observe.Left](events, 1)
		if l.Lock != before.Lock || again.Node == before.Node || again.Token <= before.Token || l.Cause == nil {
			s.Errorf("%+v, %+v, %+v", before, l, again)
		}
		s.unlock(h)
		s.unlock(a.Granted())
		events.Balanced()
	}
}

func observedLoss(s *scene) {
	for _, loss := range []struct {
		why  string
		lose func(*client)
	}{
		{"node was deleted", func(c *client) { s.kill(c.conn.SessionID()) }},
		{"session", func(c *client) { zktest.Expire(s, c.conn) }},
		{"nothing was heard", func(c *client) { c.proxy.Mute() }},
		{"", func(c *client) { c.conn.Close() }}, // the server may delete the node, and tell so, before it says goodbye
	} {
		conn, p := s.BehindFor(4 * time.Second)
		c := s.with(conn, p, Settings{})
		events := c.observed()
		h := c.lock()
		lost := h.Lost()
		c.catchUp()
		loss.lose(c)
		s.Lost(lost)
		l := Next[observe.Lost](events, 1)
		s.about(l.Lock, h.Token())
		s.Is(l.Cause, hold.ErrLost)
		if !strings.Contains(l.Cause.Error(), loss.why) || l.Held <= 0 {
			s.Errorf("%+v, want a cause that says %q", l, loss.why)
		}
		p.Unmute()
		s.Is(h.Unlock(s.Ctx), hold.ErrLost)
		s.Empty()
		if r := Of[observe.Released](events); len(r) > 0 {
			s.Errorf("lost, and released: %+v", r)
		}
		events.Balanced()
	}
}

func observedLateLoss(s *scene) {
	c := s.client()
	events := c.observed()
	h := c.lock()
	s.kill(c.conn.SessionID())
	c.catchUp()
	s.Is(h.Unlock(s.Ctx), hold.ErrLost)
	s.Is(h.Unlock(s.Ctx), hold.ErrReleased)
	l := Next[observe.Lost](events, 1)
	s.about(l.Lock, h.Token())
	s.Is(l.Cause, hold.ErrLost)
	events.Balanced()
}

func observedOrphan(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	c := s.behind()
	events := c.observed()
	s.unlock(c.lock())
	f := c.proxy.Next(zktest.CreateOp, zktest.CutAfterCommit)
	back := c.proxy.Next(zktest.ConnectOp, zktest.HoldRequest) // no search for it is answered
	a := c.begin(c.Lock)
	zktest.Within(s, soon, "the reply is lost", func() { <-f.Fired() })
	c.proxy.Refuse()
	back.Cancel()
	s.inLine(1)
	node := zktest.Children(s, s.Witness, s.Dir)[0]
	a.Stop()
	s.Must(c.proxy.Accept())
	s.Empty()
	o := Next[observe.Orphan](events, s.r.Nodes)
	if s.r.Nodes == 1 {
		s.about(o.Lock, 0) // nobody knows its token
	}
	nodes := make(map[string]bool)
	for _, o := range Of[observe.Orphan](events) {
		nodes[o.Node] = true
	}
	if len(nodes) != s.r.Nodes || !nodes[node] || o.Cause == nil {
		s.Errorf("orphans %v, want one to be %s", nodes, node)
	}
	events.Balanced()
}

func observedSurvivor(s *scene) {
	c := s.foreignBehind(session, 0)
	events := c.observed()
	h := c.lock()
	c.proxy.Refuse()
	s.Lost(h.Lost())
	Next[observe.Lost](events, 1)
	s.inLine(1)
	s.Must(c.proxy.Accept())
	o := Next[observe.Orphan](events, s.r.Nodes)
	s.Is(o.Cause, hold.ErrLost)
	s.Empty()
	s.Is(h.Unlock(s.Ctx), hold.ErrLost)
	events.Balanced()
}

func observedRetry(s *scene) {
	c, holder := s.behind(), s.client()
	events := c.observed()
	s.unlock(c.lock())
	for _, cut := range []struct {
		op   zktest.Op
		name string
	}{
		{zktest.CreateOp, "create"},
		{zktest.ListOp, "list"},
		{zktest.DeleteOp, "delete"},
	} {
		h := holder.block()
		f := c.proxy.Next(cut.op, zktest.CutBefore)
		a := c.wait(2)
		c.catchUp()
		s.unlock(h)
		s.unlock(a.Granted())
		zktest.Within(s, soon, "the cut", func() { <-f.Fired() })
		told := false
		for _, r := range Of[observe.Retried](events) {
			told = told || r.Op == cut.name
			if r.Path != s.Path || r.Cause == nil || errors.Is(r.Cause, context.Canceled) {
				s.Errorf("%+v", r)
			}
		}
		if !told {
			s.Errorf("nothing is told of a %s that was cut: %+v", cut.name, Of[observe.Retried](events))
		}
	}
	events.Balanced()
}
