package contract

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
)

const (
	// soon is more than any step needs on a busy machine, if it ends at all.
	soon = 20 * time.Second
	// session is longer than any pause of this machine: only what is made to
	// expire does.
	session = 15 * time.Second
	// quietSession is so long that no heartbeat and no ping is due in a test.
	quietSession = time.Minute
	// atOnce is how late a canceled call may return.
	atOnce = 100 * time.Millisecond
)

// scene is where a scenario plays.
type scene struct {
	*testing.T
	r       Recipe
	ctx     context.Context
	path    string // of the lock
	dir     string // in which the nodes stand
	server  string
	witness *zk.Conn
}

func newScene(t *testing.T, r Recipe) *scene {
	t.Helper()
	return sceneAt(t, r, zktest.Servers(t)[0])
}

// sceneAt plays on a server of the test's own.
func sceneAt(t *testing.T, r Recipe, server string) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &scene{T: t, r: r, ctx: ctx, server: server, witness: zktest.Connect(t, session, server)}
	s.move(zktest.Path(t))
	return s
}

// move goes on at another path.
func (s *scene) move(path string) { s.path, s.dir = path, path+s.r.Below }

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// is checks an error's kind.
func (s *scene) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error %v, want one that is %q", err, want)
	}
}

// empty asserts that nobody is left in line.
func (s *scene) empty() {
	s.Helper()
	zktest.AssertEmpty(s, s.witness, s.dir)
}

// emptyNow asserts it without patience.
func (s *scene) emptyNow() {
	s.Helper()
	if left := zktest.Children(s, s.witness, s.dir); len(left) > 0 {
		s.Errorf("%s has children: %v", s.dir, left)
	}
}

// inLine waits until so many members stand in line.
func (s *scene) inLine(members int) {
	s.Helper()
	var nodes []string
	zktest.Eventually(s, soon, "members in line", func() bool {
		nodes = zktest.Children(s, s.witness, s.dir)
		return len(nodes) == members*s.r.Nodes
	})
}

// nodes are the nodes of a session by their paths.
func (s *scene) nodes(session int64) map[string]*zk.Stat {
	s.Helper()
	nodes := make(map[string]*zk.Stat)
	for _, name := range zktest.Children(s, s.witness, s.dir) {
		_, stat, err := s.witness.Exists(s.dir + "/" + name)
		s.must(err)
		if stat.EphemeralOwner == session {
			nodes[s.dir+"/"+name] = stat
		}
	}
	if len(nodes) != s.r.Nodes {
		s.Fatalf("session %#x has %d nodes in %s", session, len(nodes), s.dir)
	}
	return nodes
}

// kill deletes the nodes of a session, as an administrator would.
func (s *scene) kill(session int64) {
	s.Helper()
	for path := range s.nodes(session) {
		s.must(s.witness.Delete(path, -1))
	}
}

// queue looks at the queue through a lock, members in order.
func (s *scene) queue(l Locker) []Member {
	s.Helper()
	members, err := l.Queue(s.ctx)
	s.must(err)
	return members
}

// client is one connection with one lock value.
type client struct {
	*scene
	Locker
	conn  *zk.Conn
	proxy *zktest.Proxy // nil if it talks to the server directly
}

func (s *scene) with(conn *zk.Conn, p *zktest.Proxy, set Settings) *client {
	return &client{scene: s, Locker: s.r.New(conn, s.path, set), conn: conn, proxy: p}
}

// client connects as zklocks does.
func (s *scene) client() *client {
	s.Helper()
	return s.with(zktest.Connect(s, session, s.server), nil, Settings{})
}

// behind connects through a proxy.
func (s *scene) behind() *client {
	s.Helper()
	return s.behindFor(session)
}

func (s *scene) behindFor(timeout time.Duration) *client {
	s.Helper()
	p := zktest.ProxyFor(s, s.server)
	return s.with(zktest.Connect(s, timeout, p.Addr()), p, Settings{})
}

// again is another lock value on the same connection.
func (c *client) again() *client { return c.with(c.conn, c.proxy, Settings{}) }

// lock takes the lock, which must be free.
func (c *client) lock() Hold { c.Helper(); return c.begin(c.Lock).granted() }

// block takes it in the way that makes others wait.
func (c *client) block() Hold { c.Helper(); return c.begin(c.Block).granted() }

// unlock gives it back without any error.
func (s *scene) unlock(h Hold) { s.Helper(); s.must(h.Unlock(s.ctx)) }

// catchUp returns when whatever the server has sent to this client has arrived.
func (c *client) catchUp() {
	c.Helper()
	for range 10 {
		zktest.Eventually(c, soon, "an answer", func() bool {
			_, _, err := c.conn.Exists("/")
			return err == nil
		})
	}
}

// attempt is one call that may wait.
type attempt struct {
	s      *scene
	cancel context.CancelFunc
	done   chan struct{}
	hold   Hold
	err    error
	began  time.Time
	at     time.Time      // when it returned
	over   chan time.Time // when a goroutine that only waits for its context woke up
}

func (c *client) begin(call func(context.Context) (Hold, error)) *attempt {
	return c.beginWith(c.ctx, call)
}

func (c *client) beginWith(ctx context.Context, call func(context.Context) (Hold, error)) *attempt {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{s: c.scene, cancel: cancel, done: make(chan struct{}), over: make(chan time.Time, 1), began: time.Now()}
	go func() {
		<-ctx.Done()
		a.over <- time.Now()
	}()
	go func() {
		defer cancel()
		a.hold, a.err = call(ctx)
		a.at = time.Now()
		close(a.done)
	}()
	return a
}

// wait begins a Lock that is the n-th in line.
func (c *client) wait(n int) *attempt {
	c.Helper()
	a := c.begin(c.Lock)
	c.inLine(n)
	return a
}

// waitToBlock begins a Block that is the n-th in line.
func (c *client) waitToBlock(n int) *attempt {
	c.Helper()
	a := c.begin(c.Block)
	c.inLine(n)
	return a
}

func (a *attempt) ended() {
	a.s.Helper()
	zktest.Within(a.s, soon, "the call returns", func() { <-a.done })
}

func (a *attempt) granted() Hold {
	a.s.Helper()
	a.ended()
	a.s.must(a.err)
	return a.hold
}

func (a *attempt) failed() error {
	a.s.Helper()
	a.ended()
	if a.err == nil {
		a.s.Fatal("granted")
	}
	if a.hold != nil {
		a.s.Error("an error and a hold")
	}
	return a.err
}

// waits asserts that the call has not returned.
func (a *attempt) waits() {
	a.s.Helper()
	select {
	case <-a.done:
		a.s.Fatalf("the call did not wait: %v", a.err)
	default:
	}
}

// stop cancels the call, which must then return at once.
func (a *attempt) stop() {
	a.s.Helper()
	a.cancel()
	a.ended()
	if a.err == nil {
		return // the grant came first
	}
	a.s.is(a.err, context.Canceled)
	a.prompt()
}

// prompt asserts that the call returned at once when its context ended. What
// this machine, which may be busy, takes to wake any goroutine does not count.
func (a *attempt) prompt() {
	a.s.Helper()
	if late := a.at.Sub(<-a.over); late > atOnce {
		a.s.Errorf("returned %v after the end of its context, more than %v", late, atOnce)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lost waits until a hold is lost.
func (s *scene) lost(h Hold) {
	s.Helper()
	lost := h.Lost()
	zktest.Within(s, soon, "the loss is told", func() { <-lost })
}
