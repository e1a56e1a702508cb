package contract

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
)

var rights = []scenario{
	{"without the right to create a Lock fails at once", mayNotCreate, 0},
	{"without the right to write a Lock does without or says so", mayNotWrite, 0},
	{"without the right to read a Lock that would wait fails", mayNotRead, 0},
	{"without the right to delete a Release returns the refusal", mayNotDelete, 0},
	{"without the right to read the node ahead a Lock that would wait fails", mayNotReadAhead, 0},
	{"a Lock that fails and may not clean up returns both errors", mayNotCleanUp, 0},
	{"a list that the server refuses is an error at once", listRefused, 0},
	{"WithACL is the list of all nodes that are made", listOfAllNodes, 0},
	{"a quota that is used up is an error at once", quotaUsedUp, 0},
	{"with a list of its own a lock is closed to others", closedToOthers, 0},
	{"credentials outlive a reconnect and an expiry", credentialsLast, 0},
}

// as connects as a user, through a proxy.
func (s *scene) as(user string, opts ...zklocks.Option) *client {
	s.Helper()
	return s.login(user, "secret", opts...)
}

func (s *scene) login(user, password string, opts ...zklocks.Option) *client {
	s.Helper()
	p := s.Venue.Proxy(s, s.Server)
	conn, err := s.ConnectWith(s.Ctx, p.Addr(), wire.WithDigestAuth(user, password))
	s.Must(err)
	s.Cleanup(func() { _ = conn.Close() })
	return s.with(conn, p, opts...)
}

// protect makes the lock's directory and grants the world only some rights. The client that it
// returns may do everything.
func (s *scene) protect(world int32) *client {
	s.Helper()
	s.makeDir(append(zk.DigestACL(zk.PermAll, "root", "secret"), zk.WorldACL(world)...))
	return s.as("root")
}

// refuses asserts that a call fails at once for want of a right.
func (s *scene) refuses(right string, calls ...lockFunc) {
	s.Helper()
	for _, call := range calls {
		began := time.Now()
		_, err := call(s.Ctx)
		s.AtOnce("a refusal", time.Since(began))
		s.Is(err, zk.ErrNoAuth)
		if says := fmt.Sprint(err); !strings.Contains(says, right+" on "+s.Dir) && !strings.Contains(says, right+" and ") {
			s.Errorf("error %q does not say which right is missing: %s", err, right)
		}
	}
}

// saysRight asserts that an error names a right and the node that lacks it.
func (s *scene) saysRight(err error) {
	s.Helper()
	for _, right := range []string{"READ on ", "CREATE on ", "WRITE on "} {
		if strings.Contains(err.Error(), right+s.Path) || strings.Contains(err.Error(), right+"the parents of "+s.Path) {
			return
		}
	}
	s.Errorf("error %q does not say which right is missing where", err)
}

func mayNotCreate(s *scene) {
	root := s.protect(zk.PermRead | zk.PermWrite | zk.PermDelete)
	c := s.client()
	s.refuses("CREATE", c.Lock, c.TryLock, c.Block)
	s.EmptyNow()
	s.release(root.lock())
}

func mayNotWrite(s *scene) {
	root := s.protect(zk.PermRead | zk.PermCreate | zk.PermDelete)
	c := s.client()
	if s.r.Announces {
		s.refuses("WRITE", c.Lock, c.TryLock)
		s.EmptyNow()
		return
	}
	for range 3 {
		h := c.lock()
		s.Must(h.Verify(s.Ctx))
		s.inLine(1)
		s.release(h)
	}
	h := root.block()
	_, err := c.TryLock(s.Ctx)
	s.Is(err, zklocks.ErrBusy)
	a := c.wait(2)
	c.waits(a)
	s.release(h)
	got := a.Granted()
	s.grows(h, got)
	s.release(got)
}

// mayNotRead makes root hold the lock, so that the queue has only the holder's nodes.
func mayNotRead(s *scene) {
	root := s.protect(zk.PermCreate | zk.PermWrite | zk.PermDelete)
	c := s.client()
	h := root.block()
	s.refuses("READ", c.Lock, c.TryLock, only(c.look))
	if n := len(test.Children(s, root.conn.Client(), s.Dir)); n != s.r.Nodes {
		s.Errorf("%d nodes in line, want the holder's %d", n, s.r.Nodes)
	}
	s.release(h)
	if left := test.Children(s, root.conn.Client(), s.Dir); len(left) > 0 {
		s.Errorf("left %v", left)
	}
	_, err := root.conn.Client().SetACL(s.Dir, zk.WorldACL(zk.PermAll), -1) // for the witness
	s.Must(err)
}

func mayNotDelete(s *scene) {
	s.protect(zk.PermRead | zk.PermCreate | zk.PermWrite)
	c := s.client()
	h := c.lock()
	s.refuses("DELETE", only(h.Release))
	s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
	if h.Held() {
		s.Error("held after the release")
	}
	c.conn.Close() // the only way
}

// mayNotReadAhead puts a member ahead, and only the owner of its node may read the node.
func mayNotReadAhead(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	ann := s.as("ann", zklocks.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret")))
	bob := s.as("bob")
	h := ann.block()
	err := bob.begin(bob.Lock).Failed()
	s.Is(err, zk.ErrNoAuth)
	if right := "READ on " + s.Dir + "/"; !strings.Contains(err.Error(), right) {
		s.Errorf("error %q does not name the right %s…", err, right)
	}
	s.inLine(1)
	s.release(h)
	s.release(bob.lock())
}

// mayNotCleanUp lets a client create a node and not delete it. A recipe that lists first creates no
// node.
func mayNotCleanUp(s *scene) {
	root := s.protect(zk.PermCreate | zk.PermWrite)
	c := s.client()
	h := root.block()
	err := c.begin(c.Lock).Failed()
	s.Is(err, zk.ErrNoAuth)
	why, left, both := strings.Cut(err.Error(), "; and leaving the queue: ")
	if !strings.Contains(why, "READ on "+s.Dir) || both && !strings.Contains(left, "DELETE on "+s.Dir) {
		s.Errorf("error %q does not say why it failed, and what it may not clean up", err)
	}
	if leaves := len(test.Children(s, root.conn.Client(), s.Dir)) > s.r.Nodes; leaves != both {
		s.Errorf("leaves a node: %v; error %q", leaves, err)
	}
	s.release(h)
	c.conn.Close() // the only way
	_, err = root.conn.Client().SetACL(s.Dir, zk.WorldACL(zk.PermAll), -1)
	s.Must(err)
}

// listRefused is about lists that only the server can judge.
func listRefused(s *scene) {
	c := s.client()
	for _, acl := range []zk.ACL{
		{Perms: zk.PermAll, Scheme: "auth"},                       // of a client without credentials
		{Perms: zk.PermAll, Scheme: "digest", ID: "without-hash"}, // of no identity
		{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"},
	} {
		l := s.on(c.conn, zklocks.WithACL([]zk.ACL{acl}))
		for _, call := range []lockFunc{l.Lock, l.TryLock, l.Block} {
			a := c.begin(call)
			namesIdentities(s, a.Failed())
			s.AtOnce(fmt.Sprintf("refusing %v", acl), a.At.Sub(a.Began))
		}
		s.EmptyNow()
	}
	s.makeDir(zk.WorldACL(zk.PermAll)) // now the server refuses the member's node
	l := s.on(c.conn, zklocks.WithACL(zk.AuthACL(zk.PermAll)))
	_, err := l.Lock(s.Ctx)
	namesIdentities(s, err)
	s.EmptyNow()
}

// namesIdentities asserts that the error of a refused list says how to prove an identity.
func namesIdentities(s *scene, err error) {
	s.Helper()
	s.Is(err, zk.ErrInvalidACL)
	if !strings.Contains(err.Error(), "WithDigestAuth or WithSASL") {
		s.Errorf("error %q does not say how to prove an identity", err)
	}
}

func listOfAllNodes(s *scene) {
	acl := zk.DigestACL(zk.PermAll, "ann", "secret")
	top := s.Path
	s.move(s.Path + "/b/c")
	ann := s.as("ann", zklocks.WithACL(acl))
	h := ann.lock()
	paths := []string{top, top + "/b", top + "/b/c"}
	if s.Dir != s.Path {
		paths = append(paths, s.Dir)
	}
	names, _, err := ann.conn.Client().Children(s.Dir)
	s.Must(err)
	for _, name := range names {
		paths = append(paths, s.Dir+"/"+name)
	}
	for _, path := range paths {
		got, _, err := ann.conn.Client().GetACL(path)
		s.Must(err)
		if len(got) != 1 || got[0] != acl[0] {
			s.Errorf("%s has the list %v, want %v", path, got, acl)
		}
	}
	if got, _, err := ann.conn.Client().GetACL("/"); err != nil || got[0].Scheme != "world" {
		s.Errorf("/ has the list %v, %v", got, err)
	}
	stranger := s.client()
	_, err = stranger.Lock(s.Ctx)
	s.Is(err, zk.ErrNoAuth)
	s.Is(stranger.conn.Client().Delete(s.Dir+"/"+names[0], -1), zk.ErrNoAuth)

	s.release(h)
	test.AssertEmpty(s, ann.conn.Client(), s.Dir)
	_, err = ann.conn.Client().SetACL(s.Dir, zk.WorldACL(zk.PermAll), -1) // for the witness
	if err != zk.ErrNoNode {
		s.Must(err)
	}
}

// quotaUsedUp: with zookeeper.enforceQuota a server refuses nodes, and their bytes, above a quota.
func quotaUsedUp(s *scene) {
	const quotaExceeded = -125
	c := s.behind()
	s.release(c.lock())
	for _, call := range []lockFunc{c.Lock, c.TryLock, c.Block} {
		before := c.proxy.Seen(proxy.AnyOp)
		refusal := c.proxy.Next(proxy.CreateOp, proxy.Answer(quotaExceeded))
		a := c.begin(call)
		if err := a.Failed(); !strings.Contains(err.Error(), "quota") {
			s.Errorf("error %q does not say what is wrong", err)
		}
		s.AtOnce("refusing", a.At.Sub(a.Began))
		if n := c.proxy.Seen(proxy.AnyOp) - before; n > few || !Closed(refusal.Fired()) {
			s.Errorf("%d requests, refused %v", n, Closed(refusal.Fired()))
		}
		s.EmptyNow()
	}
	s.release(c.lock())
}

// whole reads the directory through a client that has the right, and asserts how many members it
// has.
func (c *client) whole(members int) (paths []string) {
	c.Helper()
	test.Eventually(c, soon, "members in line", func() bool {
		names, _, err := c.conn.Client().Children(c.Dir)
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
	if _, err := c.conn.Client().SetACL(c.Dir, zk.WorldACL(zk.PermAll), -1); err != zk.ErrNoNode {
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
		_, _, err := c.conn.Client().Children(s.Dir)
		s.Is(err, zk.ErrNoAuth)
		_, err = c.conn.Client().SetACL(s.Dir, zk.WorldACL(zk.PermAll), -1)
		s.Is(err, zk.ErrNoAuth)
		s.Is(c.conn.Client().Delete(s.Dir, -1), zk.ErrNoAuth)
		_, err = c.conn.Client().Create(s.Dir+"/x", nil, 0, zk.WorldACL(zk.PermAll))
		s.Is(err, zk.ErrNoAuth)
		for _, node := range nodes {
			_, _, err := c.conn.Client().Get(node)
			s.Is(err, zk.ErrNoAuth)
			_, err = c.conn.Client().Set(node, nil, -1)
			s.Is(err, zk.ErrNoAuth)
			s.Is(c.conn.Client().Delete(node, -1), zk.ErrNoAuth)
		}
	}

	first.whole(2)
	s.Must(h.Verify(s.Ctx))
	a.Waits()
	s.release(h)
	s.release(a.Granted())
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
	s.release(got)
	s.release(b.Granted())
	c.whole(0)
	c.open()
}
