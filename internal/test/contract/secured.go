package contract

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

var secured = []scenario{
	{"over TLS and with a list of its own a lock is closed to others", closedToOthers, ownServer | modern},
	{"credentials outlive a reconnect and an expiry", credentialsLast, ownServer | modern},
}

// overTLS plays on a server that speaks TLS, too. The function that it returns connects over TLS.
// It returns the client, and a function that cuts the client's connection.
func overTLS(s *scene) (*scene, func(mine []zklocks.Option, opts ...wire.Option) (*client, func())) {
	s.Helper()
	ca := realzk.NewAuthority(s)
	server := s.Venue.StandaloneTLS(s, ca, ca.Issue(s, "localhost", time.Now().Add(time.Hour)), venue.Options{})
	s = s.at(server.Addr())
	return s, func(mine []zklocks.Option, opts ...wire.Option) (*client, func()) {
		s.Helper()
		d := lastDialed{venue: s.Venue}
		opts = append(opts, wire.WithTLS(&tls.Config{RootCAs: ca.Pool}), wire.WithDialer(d.dial))
		conn, err := s.ConnectWith(s.Ctx, server.TLSAddr, opts...)
		s.Must(err)
		s.Cleanup(func() { _ = conn.Close() })
		return s.with(conn, nil, mine...), d.cut
	}
}

// lastDialed cuts a connection that a proxy cannot read.
type lastDialed struct {
	venue venue.Venue
	mu    sync.Mutex
	conn  net.Conn
}

func (d *lastDialed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.venue.Dial(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = conn
	return conn, err
}

func (d *lastDialed) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn.Close()
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
	s, connect := overTLS(s)
	mine := []zklocks.Option{zklocks.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))}
	s.move(s.Path + "/below") // the parents that the lock creates get the same ACL
	first, _ := connect(mine, wire.WithDigestAuth("ann", "secret"))
	second, _ := connect(mine, wire.WithDigestAuth("ann", "secret"))
	h := first.block()
	a := second.begin(second.Lock)
	nodes := first.whole(2)

	stranger, _ := connect(nil)
	wrong, _ := connect(mine, wire.WithDigestAuth("ann", "guessed"))
	other, _ := connect(mine, wire.WithDigestAuth("bob", "secret"))
	for _, c := range []*client{stranger, wrong, other} {
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
	s.Empty()
}

func credentialsLast(s *scene) {
	s, connect := overTLS(s)
	mine := []zklocks.Option{zklocks.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))}
	c, cut := connect(mine, wire.WithDigestAuth("ann", "secret"))
	next, cutNext := connect(mine, wire.WithDigestAuth("ann", "secret"))
	h := c.block()
	a := next.begin(next.Lock)
	c.whole(2)
	for range 3 {
		cut()
		cutNext()
		s.Must(h.Verify(s.Ctx))
		c.whole(2)
	}
	if !h.Held() {
		s.Error("lost by a reconnect")
	}
	a.Waits()
	s.Venue.ExpireAt(s, next.conn, s.Server) // queues again, in a new session
	s.Venue.ExpireAt(s, c.conn, s.Server)
	got := a.Granted()
	s.grows(h, got)
	s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	b := c.begin(c.Lock)
	c.whole(2)
	s.unlock(got)
	s.unlock(b.Granted())
	c.whole(0)
	c.open()
	s.Empty()
}
