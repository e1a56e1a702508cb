package contract

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var fencing = []scenario{
	{"the token grows forever", tokens, 0},
	{"Verify detects what no event has reported", verifies, 0},
	{"Verify asks the quorum", verifiesByTheQuorum, 0},
}

func tokens(s *scene) {
	c, other := s.client(), s.client()
	last := int64(0)
	next := func(what string, h *zklocks.Hold) {
		s.Helper()
		if h.Token() <= last {
			s.Errorf("%s: token %d after %d", what, h.Token(), last)
		}
		last = h.Token()
	}
	for range 3 {
		h := c.lock()
		next("release", h)
		s.release(h)
		h = other.block()
		next("another holder", h)
		a := c.wait(2)
		s.release(h)
		h = a.Granted()
		next("after a wait", h)
		s.release(h)
	}
	next("before the expiry", c.lock())
	s.Expire(c.conn)
	deleted := c.lock()
	next("after the expiry", deleted)
	s.kill(c.conn.Session())
	c.catchUp() // a lock that is shared within the process continues until its process receives the event
	h := c.lock()
	next("after the node was deleted", h)
	s.release(h)
	if err := s.Witness.Client().Delete(s.Dir, -1); !errors.Is(err, zk.ErrNoNode) { // the server may have deleted it first
		s.Must(err)
	}
	h = c.lock()
	next("in a new directory", h)
	s.release(h)
	s.Is(deleted.Release(s.Ctx), zklocks.ErrLost)
}

func verifies(s *scene) {
	c := s.client()
	h := c.lock()
	s.Must(h.Verify(s.Ctx)) // nothing watches the node
	s.kill(c.conn.Session())
	if err := h.Verify(s.Ctx); err == nil {
		s.Error("verified without a node")
	}
	s.over(h, h.Context(s.Ctx))
}

// A read is enough on a server that is up to date. On a server that lags behind, only a request
// that the quorum answers is enough.
func verifiesByTheQuorum(s *scene) {
	c := s.with(s.BehindFor(quietSession))
	h := c.lock()
	checks, all := c.proxy.Seen(proxy.CheckOp), c.proxy.Seen(proxy.AnyOp)
	s.Must(h.Verify(s.Ctx))
	if checks, all = c.proxy.Seen(proxy.CheckOp)-checks, c.proxy.Seen(proxy.AnyOp)-all; checks != 1 || all != 1 {
		s.Errorf("%d requests, %d of them through the quorum", all, checks)
	}
	s.release(h)
}
