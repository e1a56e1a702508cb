package contract

import (
	"context"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var asking = []scenario{
	{"a holder is notified that it is asked to release, and continues", askedWhileHolding, 0},
	{"a waiter that is asked to release is notified when it holds", askedWhileWaiting, 0},
	{"a request that comes while the node is read reaches the holder", askedWhileReading, 0},
	{"a request reaches the holder after a reconnect", askedOffline, 0},
	{"a request is made once through a cut at any step", askedThroughCuts, 0},
	{"requests of two clients at once are one", askedTwice, 0},
	{"a member that has gone cannot be asked", askedTooLate, 0},
	{"other writes into the node ask for nothing", askedForNothing, 0},
	{"to watch for requests takes one read at most, which the watch for a loss shares", hearingCosts, single},
	{"without the right to read and write the node a request fails at once", mayNotAsk, 0},
	{"a request with bad input is an error at once", asksBadly, 0},
}

// requestRelease asks a member to release, by the client's connection.
func (c *client) requestRelease(m zklocks.Member) error {
	return locks.On(c.conn).RequestRelease(c.Ctx, m)
}

// only returns the one member of the queue.
func (c *client) only() zklocks.Member {
	c.Helper()
	q := c.queue()
	if len(q) != 1 {
		c.Fatalf("queue %+v", q)
	}
	return q[0]
}

// written returns how often a member's node was written into.
func (s *scene) written(m zklocks.Member) int32 {
	s.Helper()
	_, stat, err := s.Witness.Client().Exists(m.Path)
	s.Must(err)
	if stat == nil || stat.Czxid != m.Token {
		s.Fatalf("the node of %+v is %+v", m, stat)
	}
	return stat.Version
}

// hears waits until a hold is asked to release.
func (s *scene) hears(asked <-chan struct{}) {
	s.Helper()
	test.Within(s, soon, "it is notified that it is asked to release", func() { <-asked })
}

func askedWhileHolding(s *scene) {
	c, other := s.client(), s.client()
	h := c.lock()
	asked := h.ReleaseRequested()
	c.catchUp()
	m := other.only()
	if Closed(asked) || m.ReleaseRequested {
		s.Errorf("asked before the request: %v, %+v", Closed(asked), m)
	}
	s.Pass(time.Second)
	s.Must(other.requestRelease(m))
	s.hears(asked)
	if !h.Held() || Closed(h.Lost()) {
		s.Error("a request has ended the hold")
	}
	s.Must(h.Verify(s.Ctx))
	now := other.only()
	if !now.ReleaseRequested || !now.Holding || string(now.Data) != string(m.Data) || now.Host != m.Host || now.Pid != m.Pid || m.Pid == 0 || now.Token != m.Token || !now.Since.Equal(m.Since) {
		s.Errorf("after the request: %+v", now)
	}
	for _, again := range []zklocks.Member{m, now} {
		s.Must(other.requestRelease(again))
		if n := s.written(m); n != 1 {
			s.Errorf("written %d times by one request that is repeated", n)
		}
	}
	s.release(h)
	if !Closed(asked) || !Closed(h.ReleaseRequested()) {
		s.Error("the end of the hold has taken back the request")
	}
	h = c.lock()
	c.catchUp()
	if Closed(h.ReleaseRequested()) || other.only().ReleaseRequested {
		s.Error("the next hold is asked by a request to the one before")
	}
	s.release(h)
}

func askedWhileWaiting(s *scene) {
	holder, c := s.client(), s.client()
	h := holder.block()
	a := c.wait(2)
	c.catchUp()
	s.Must(holder.requestRelease(holder.queue()[1]))
	c.waits(a)
	if q := holder.queue(); len(q) != 2 || q[0].ReleaseRequested || !q[1].ReleaseRequested || q[1].Holding {
		s.Errorf("queue %+v", q)
	}
	s.release(h)
	h = a.Granted()
	s.hears(h.ReleaseRequested())
	s.Must(h.Verify(s.Ctx))
	s.release(h)
}

func askedWhileReading(s *scene) {
	c, other := s.behind(), s.client()
	h := c.lock()
	asked := h.ReleaseRequested()
	c.catchUp()
	m := other.only()
	read := c.proxy.Next(proxy.ReadOp, proxy.HoldReply)
	_, err := s.Witness.Client().Set(m.Path, []byte("text"), -1)
	s.Must(err)
	s.Fired(read)
	s.Must(other.requestRelease(m))
	read.Release()
	s.hears(asked)
	s.release(h)
}

func askedOffline(s *scene) {
	c, other := s.behind(), s.client()
	for name, away := range map[string]func() (back func()){
		"the connection is cut": func() func() {
			c.proxy.Refuse()
			return func() { s.Must(c.proxy.Accept()) }
		},
		"nothing arrives": func() func() { c.proxy.Mute(); return c.proxy.Unmute },
	} {
		h := c.lock()
		asked := h.ReleaseRequested()
		c.catchUp()
		back := away()
		s.Must(other.requestRelease(other.only()))
		s.Settle()
		if Closed(asked) {
			s.Errorf("%s: heard without a connection", name)
		}
		back()
		s.hears(asked)
		s.release(h)
	}
}

func askedThroughCuts(s *scene) {
	c, other := s.client(), s.behind()
	for _, action := range disturbances {
		for _, op := range []proxy.Op{proxy.ReadOp, proxy.SetOp} {
			h := c.lock()
			m := c.only()
			f := other.cutAt(op, 1, action)
			s.Must(other.requestRelease(m))
			if !f.met.Load() {
				s.Fatalf("a request makes no %v", op)
			}
			s.hears(h.ReleaseRequested())
			if n := s.written(m); n != 1 {
				s.Errorf("%v %v: written %d times", action, op, n)
			}
			s.release(h)
		}
	}
}

func askedTwice(s *scene) {
	c, slow, fast := s.client(), s.behind(), s.client()
	h := c.lock()
	m := c.only()
	f, a := slow.meets(proxy.SetOp, proxy.HoldRequest, only(func(context.Context) error { return slow.requestRelease(m) }))
	s.Must(fast.requestRelease(m))
	f.Release()
	a.Granted()
	if n := s.written(m); n != 1 {
		s.Errorf("written %d times", n)
	}
	s.hears(h.ReleaseRequested())
	s.release(h)
}

func askedTooLate(s *scene) {
	c, other := s.client(), s.behind()
	gone := func(m zklocks.Member, err error) {
		s.Helper()
		s.Is(err, zk.ErrNoNode)
		if err != nil && !strings.HasPrefix(err.Error(), "zklocks: request release of "+m.Path+": ") {
			s.Errorf("error %q", err)
		}
	}
	h := c.lock()
	m := c.only()
	s.release(h)
	gone(m, other.requestRelease(m))

	h = c.lock()
	m = c.only()
	f, a := other.meets(proxy.SetOp, proxy.HoldRequest, only(func(context.Context) error { return other.requestRelease(m) }))
	s.release(h)
	f.Release()
	gone(m, a.Failed())

	// A request to a node that is gone must not reach another node with the same name: the names
	// that other clients make need not be unique.
	h = c.lock()
	m = c.only()
	former := m
	former.Token--
	gone(m, other.requestRelease(former))
	if n := s.written(m); n != 0 {
		s.Error("the member of another token is asked")
	}
	s.release(h)
}

func askedForNothing(s *scene) {
	c := s.client()
	h := c.lock()
	asked := h.ReleaseRequested()
	c.catchUp()
	m := c.only()
	for _, text := range []string{"text", ""} {
		_, err := s.Witness.Client().Set(m.Path, []byte(text), -1)
		s.Must(err)
		c.catchUp()
		if Closed(asked) || c.only().ReleaseRequested {
			s.Errorf("asked by %q", text)
		}
	}
	s.Must(c.requestRelease(m))
	s.hears(asked)
	s.release(h)
}

func hearingCosts(s *scene) {
	c := s.behind()
	lost := func(h *zklocks.Hold) { Closed(h.Lost()) }
	hears := func(h *zklocks.Hold) { Closed(h.ReleaseRequested()) }
	for i, calls := range [][]func(*zklocks.Hold){{lost, hears, hears}, {hears, hears, lost}} {
		h := c.lock()
		c.catchUp()
		before := c.requests()
		for j, call := range calls {
			call(h)
			c.catchUp()
			most := int64(s.r.Nodes) // all nodes are watched for their deletion, the first node also for requests
			if i == 1 && j < 2 {
				most = 1
			}
			if n := c.requests() - before; n > most {
				s.Errorf("order %d: %d requests after call %d, want at most %d", i, n, j, most)
			}
		}
		s.release(h)
	}
}

func mayNotAsk(s *scene) {
	for _, tc := range []struct {
		rights int32
		says   string
	}{{zk.PermAll &^ zk.PermRead, "READ on "}, {zk.PermAll &^ zk.PermWrite, "WRITE on "}} {
		s.move(test.Path(s))
		s.makeDir(zk.WorldACL(zk.PermAll))
		acl := append(zk.DigestACL(zk.PermAll, "root", "secret"), zk.WorldACL(tc.rights)...)
		c, other := s.as("root", zklocks.WithACL(acl)), s.client()
		h := c.lock()
		asked := h.ReleaseRequested()
		m := c.only()
		began := time.Now()
		err := other.requestRelease(m)
		s.AtOnce("a refusal", time.Since(began))
		if s.Is(err, zk.ErrNoAuth); err != nil && !strings.Contains(err.Error(), tc.says+m.Path) {
			s.Errorf("error %q does not say %q", err, tc.says+m.Path)
		}
		c.catchUp()
		if Closed(asked) {
			s.Error("asked by a request that was refused")
		}
		s.Must(c.requestRelease(m))
		s.hears(asked)
		s.release(h)
	}
}

func asksBadly(s *scene) {
	c, other := s.client(), s.behind()
	h := c.lock()
	m := c.only()
	conn := locks.On(other.conn)
	if err := conn.RequestRelease(s.Ctx, zklocks.Member{}); err == nil || !strings.Contains(err.Error(), "path is empty") {
		s.Errorf("a member that is none: %v", err)
	}
	canceled, cancel := context.WithCancel(s.Ctx)
	cancel()
	s.Is(conn.RequestRelease(canceled, m), context.Canceled)
	if n := other.proxy.Seen(proxy.AnyOp); n != 0 {
		s.Errorf("%d requests", n)
	}
	f, a := other.meets(proxy.ReadOp, proxy.HoldReply, only(func(ctx context.Context) error { return conn.RequestRelease(ctx, m) }))
	a.Stop()
	f.Release()
	other.catchUp()
	other.conn.Close()
	s.Is(conn.RequestRelease(s.Ctx, m), zk.ErrClosing)
	if n := s.written(m); n != 0 {
		s.Errorf("written %d times", n)
	}
	s.release(h)
}
