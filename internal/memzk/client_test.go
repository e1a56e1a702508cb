package memzk

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

// bubble runs a test in virtual time with its own ensemble.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, e *Ensemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := Start(cfg)
		defer e.Stop()
		test(t, e)
	})
}

// client is the real client, whose connections go to a member that the test chooses.
type client struct {
	*zk.Conn
	mu   sync.Mutex
	to   *Member
	pick func() *Member // if set, used instead of to
	nc   net.Conn
}

func (c *client) dial(string, string, time.Duration) (net.Conn, error) {
	near, far := newPipe()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nc = near
	if c.pick != nil {
		c.to = c.pick()
	}
	go c.to.ServeConn(far)
	return near, nil
}

// moveTo makes the client connect to another member.
func (c *client) moveTo(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = m
	c.nc.Close()
}

// connect returns when the client has a session. The client is closed at the end of the test.
func connect(t testing.TB, m *Member, timeout time.Duration) *client {
	t.Helper()
	c := &client{to: m}
	conn, events, err := zk.Connect([]string{"192.0.2.1:2181"}, timeout, zk.WithDialer(test.Ordered(c.dial)), zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	c.Conn = conn
	t.Cleanup(func() {
		conn.Close()
		time.Sleep(2 * time.Second) // a client that is closed may sleep for a second before it ends
	})
	for ev := range events {
		if ev.State == zk.StateHasSession {
			return c
		}
	}
	t.Fatal("the client ended without a session")
	return nil
}

var open = zk.WorldACL(zk.PermAll)

func TestAClientUsesAServer(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, e *Ensemble) {
		m := e.Members()[0]
		a, b := connect(t, m, 4*time.Second), connect(t, m, 4*time.Second)
		path, err := a.Create("/a-", []byte("x"), zk.FlagEphemeral|zk.FlagSequence, open)
		if err != nil || path != "/a-0000000000" {
			t.Fatalf("create: %q, %v", path, err)
		}
		data, stat, gone, err := b.GetW(path)
		if err != nil || string(data) != "x" || stat.EphemeralOwner != a.SessionID() {
			t.Fatalf("get: %q %+v %v", data, stat, err)
		}
		time.Sleep(time.Minute) // both clients ping, so nothing expires
		if len(e.Sessions()) != 2 {
			t.Errorf("sessions: %v", e.Sessions())
		}
		if !e.Expire(a.SessionID()) {
			t.Error("no session to expire")
		}
		if ev := <-gone; ev.Type != zk.EventNodeDeleted || ev.Path != path {
			t.Errorf("event: %+v", ev)
		}
		if nodes := e.Nodes(); len(nodes) != 0 {
			t.Errorf("nodes: %v", nodes)
		}
	})
}

func TestAClientUsesAServerOverTCP(t *testing.T) {
	e := Start(Config{})
	defer e.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- e.Members()[0].Serve(l) }()
	conn, _, err := zk.Connect([]string{l.Addr().String()}, 4*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Create("/a", nil, 0, open); err != nil {
		t.Error(err)
	}
	if ok, _, err := conn.Exists("/a"); !ok || err != nil {
		t.Errorf("exists: %t, %v", ok, err)
	}
	conn.Close()
	e.Stop()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}
