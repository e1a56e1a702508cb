package contract

import (
	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
)

var secured = []scenario{
	{"with a list of its own a lock is closed to others", closedToOthers, 0},
	{"credentials outlive a reconnect and an expiry", credentialsLast, 0},
}

// whole reads the directory through a client that has the right, and asserts how many members it
// has.
func (c *client) whole(members int) (paths []string) {
	c.Helper()
	test.Eventually(c, soon, "members in line", func() bool {
		names, _, err := c.conn.Children(c.Dir)
		if err != nil && err != zk.ErrNoNode {
			return false
		}
		paths = nil
		for _, name := range names {
			paths = append(paths, c.Dir+"/"+name)
		}
		return len(names) == members*c.r.Nodes
	})
	return paths
}

// open lets the witness read the directory at the end.
func (c *client) open() {
	c.Helper()
	if _, err := c.conn.SetACL(c.Dir, zk.WorldACL(zk.PermAll), -1); err != zk.ErrNoNode {
		c.Must(err)
	}
}

func closedToOthers(s *scene) {
	mine := zklocks.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))
	s.move(s.Path + "/below") // the parents that the lock creates get the same ACL
	first, second := s.as("ann", mine), s.as("ann", mine)
	h := first.block()
	a := second.begin(second.Lock)
	nodes := first.whole(2)

	for _, c := range []*client{s.client(), s.login("ann", "guessed", mine), s.as("bob", mine)} {
		s.every(c.Locker, 0, func(name string, err error) {
			s.Is(err, zk.ErrNoAuth) // at the first call, and the error says which right is missing
			s.saysRight(err)
		})
		_, _, err := c.conn.Children(s.Dir)
		s.Is(err, zk.ErrNoAuth)
		_, err = c.conn.SetACL(s.Dir, zk.WorldACL(zk.PermAll), -1)
		s.Is(err, zk.ErrNoAuth)
		s.Is(c.conn.Delete(s.Dir, -1), zk.ErrNoAuth)
		_, err = c.conn.Create(s.Dir+"/x", nil, 0, zk.WorldACL(zk.PermAll))
		s.Is(err, zk.ErrNoAuth)
		for _, node := range nodes {
			_, _, err := c.conn.Get(node)
			s.Is(err, zk.ErrNoAuth)
			_, err = c.conn.Set(node, nil, -1)
			s.Is(err, zk.ErrNoAuth)
			s.Is(c.conn.Delete(node, -1), zk.ErrNoAuth)
		}
	}

	first.whole(2)
	s.Must(h.Verify(s.Ctx))
	a.Waits()
	s.unlock(h)
	s.unlock(a.Granted())
	first.whole(0)
	first.open()
}

func credentialsLast(s *scene) {
	mine := zklocks.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))
	c, next := s.as("ann", mine), s.as("ann", mine)
	h := c.block()
	a := next.begin(next.Lock)
	c.whole(2)
	for range 3 {
		c.proxy.Cut()
		next.proxy.Cut()
		s.Must(h.Verify(s.Ctx))
		c.whole(2)
	}
	if !h.Held() {
		s.Error("lost by a reconnect")
	}
	a.Waits()
	s.Expire(next.conn) // queues again, in a new session
	s.Expire(c.conn)
	got := a.Granted()
	s.grows(h, got)
	s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	b := c.begin(c.Lock)
	c.whole(2)
	s.unlock(got)
	s.unlock(b.Granted())
	c.whole(0)
	c.open()
}
