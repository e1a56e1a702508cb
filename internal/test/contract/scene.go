package contract

import (
	"context"
	"maps"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// scene is the lock path, the server and the clients of a scenario.
type scene struct {
	*Stage
	r Recipe
}

func newScene(t *testing.T, v venue.Venue, r Recipe) *scene {
	t.Helper()
	return &scene{NewStage(t, v, r.Below), r}
}

// at returns the same scene on a server of its own.
func (s *scene) at(server string) *scene {
	s.Helper()
	return &scene{stageAt(s.T, s.Venue, s.r.Below, server), s.r}
}

// move continues at another path.
func (s *scene) move(path string) { s.Path, s.Dir = path, path+s.r.Below }

// inLine waits until the queue has the given number of members.
func (s *scene) inLine(members int) {
	s.Helper()
	s.InLine(members * s.r.Nodes)
}

// nodes returns the nodes of a session by their paths.
func (s *scene) nodes(session int64) map[string]*zk.Stat {
	s.Helper()
	nodes := s.nodesIn(s.Dir, session)
	if len(nodes) != s.r.Nodes {
		s.Fatalf("session %#x has %d nodes in %s", session, len(nodes), s.Dir)
	}
	return nodes
}

// nodesIn returns the nodes of a session in a directory. The session 0 means all sessions.
func (s *scene) nodesIn(dir string, session int64) map[string]*zk.Stat {
	s.Helper()
	nodes := make(map[string]*zk.Stat)
	for _, name := range test.Children(s, s.Witness.Client(), dir) {
		_, stat, err := s.Witness.Client().Exists(dir + "/" + name)
		s.Must(err)
		if session == 0 || stat.EphemeralOwner == session {
			nodes[dir+"/"+name] = stat
		}
	}
	return nodes
}

// dirs returns the directories in which the lock has nodes.
func (s *scene) dirs() []string {
	if s.r.Beside == "" {
		return []string{s.Dir}
	}
	return []string{s.Dir, s.Path + s.r.Beside}
}

// kill deletes the nodes of sessions, as an administrator would. It deletes all nodes at once,
// because the library deletes the rest of a hold that has lost a node.
func (s *scene) kill(sessions ...int64) {
	s.Helper()
	var all []any
	for _, session := range sessions {
		for _, dir := range s.dirs() {
			for path := range s.nodesIn(dir, session) {
				all = append(all, &zk.DeleteRequest{Path: path, Version: -1})
			}
		}
	}
	_, err := s.Witness.Client().Multi(all...)
	s.Must(err)
}

// queue lists the queue through a lock, members in order.
func (c *client) queue() []zklocks.Member {
	c.Helper()
	members, err := c.Queue(c.Ctx)
	c.Must(err)
	return members
}

// client is one connection with one lock value.
type client struct {
	*scene
	Locker
	conn  *wire.Conn
	proxy *proxy.Proxy // nil if the client is connected to the server directly
}

// on returns a lock on a connection.
func (s *scene) on(conn *wire.Conn, opts ...zklocks.Option) Locker {
	return s.r.New(locks.On(conn), s.Path, opts...)
}

// options returns how to make a lock value with each of the recipe's own options, and without.
func (s *scene) options() map[string]func(*zklocks.Conn, string) Locker {
	all := map[string]func(*zklocks.Conn, string) Locker{
		"no option": func(conn *zklocks.Conn, path string) Locker { return s.r.New(conn, path) },
	}
	maps.Copy(all, s.r.Options)
	return all
}

func (s *scene) with(conn *wire.Conn, p *proxy.Proxy, opts ...zklocks.Option) *client {
	return &client{scene: s, Locker: s.on(conn, opts...), conn: conn, proxy: p}
}

// client returns a client that connects as zklocks does.
func (s *scene) client() *client {
	s.Helper()
	return s.with(s.Connect(), nil)
}

// behind returns a client that connects through a proxy.
func (s *scene) behind() *client {
	s.Helper()
	return s.with(s.Behind())
}

// again returns a client with another lock value on the same connection.
func (c *client) again() *client { return c.with(c.conn, c.proxy) }

// lock takes the lock, which must be free.
func (c *client) lock() *zklocks.Hold { c.Helper(); return c.begin(c.Lock).Granted() }

// block takes the lock in the way that makes other clients wait.
func (c *client) block() *zklocks.Hold { c.Helper(); return c.begin(c.Block).Granted() }

// release ends a hold, and fails the test on an error.
func (s *scene) release(h *zklocks.Hold) { s.Helper(); s.Must(h.Release(s.Ctx)) }

// catchUp returns when whatever the server has sent to this client has arrived.
func (c *client) catchUp() { c.Helper(); c.CatchUp(c.conn) }

func (c *client) begin(call lockFunc) *attempt {
	return Begin(c, c.Ctx, call)
}

// meets begins a call, and returns when a fault has met its first request of a kind.
func (c *client) meets(op proxy.Op, action proxy.Action, call lockFunc) (*proxy.Fault, *attempt) {
	c.Helper()
	f := c.proxy.Next(op, action)
	a := c.begin(call)
	c.Fired(f)
	return f, a
}

// offline waits until the client has noticed that it has no connection.
func (c *client) offline() {
	c.Helper()
	test.Eventually(c, soon, "the connection is lost", func() bool { return c.conn.State() != zk.StateHasSession })
}

// waits asserts that a call of this client still waits when all that the server has sent has
// arrived.
func (c *client) waits(a *attempt) {
	c.Helper()
	c.catchUp()
	a.Waits()
}

// grows asserts that a hold has a greater token than one before.
func (s *scene) grows(before, after *zklocks.Hold) {
	s.Helper()
	if after.Token() <= before.Token() {
		s.Errorf("token %d after %d", after.Token(), before.Token())
	}
}

// ask begins a call that grants nothing.
func (c *client) ask(call func(context.Context) error) *attempt { return c.begin(only(call)) }

// wait begins a Lock that is the n-th in the queue.
func (c *client) wait(n int) *attempt {
	c.Helper()
	a := c.begin(c.Lock)
	c.inLine(n)
	return a
}

// waitToBlock begins a Block that is the n-th in the queue.
func (c *client) waitToBlock(n int) *attempt {
	c.Helper()
	a := c.begin(c.Block)
	c.inLine(n)
	return a
}

// Closed reports whether a channel is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
