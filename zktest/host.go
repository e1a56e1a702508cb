package zktest

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
)

// connectTimeout is how long Connect waits for a session.
const connectTimeout = 15 * time.Second

// A Host is where a program under test runs. Its methods break the network between it and the
// servers, or single packets; those of To, Requests and Replies break a part of the network.
//
// A Host has no memory and no processes to freeze: it is an address, and for ACLs of the scheme ip
// 127.0.0.1.
type Host struct {
	s     *Server
	name  string
	made  string // file and line
	from  *memnet.Host
	proxy *proxy.Proxy
	doors []string // addresses of the proxy, by member
}

func newHost(s *Server, name, made string) *Host {
	h := &Host{s: s, name: name, made: made, from: s.network.Host(name)}
	var err error
	for i, m := range s.members {
		// A door is on the member's host, so that what is between the two cannot break, and what is
		// between the Host and the door is what is between the Host and the member.
		at := s.network.Host(m.host)
		var addr string
		if i == 0 {
			if h.proxy, err = proxy.On(at, m.inMemory()); err == nil {
				addr = h.proxy.Addr()
			}
		} else {
			addr, err = h.proxy.Open(at, m.inMemory())
		}
		if err != nil {
			panic(fmt.Sprintf("zktest: Host: %v: the server has been stopped", err))
		}
		h.doors = append(h.doors, addr)
	}
	return h
}

// Name is what the host was called.
func (h *Host) Name() string { return h.name }

// Connect connects the host to the server by [zklocks.Connect], and closes the connection at t's
// cleanup, if it has not been closed before. t fails if there is no session after 15 seconds, and,
// unless WithHoldsLeft allows it, if a lock on the connection is still held at the cleanup. A
// zklocks.WithDialer among opts has no effect: the host is the dialer.
func (h *Host) Connect(t testing.TB, sessionTimeout time.Duration, opts ...zklocks.ConnectOption) *zklocks.Conn {
	t.Helper()
	if why := foreign(h.s.bubble); why != "" {
		t.Fatalf("zktest: Connect: %s", why)
	}
	if wrongT(t) {
		t.Fatal("zktest: Connect: this t is not that of the bubble: use the t that synctest.Test passes to its function")
	}
	ctx := t.Context()
	if ctx.Err() != nil { // in a cleanup
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	held := &holds{held: make(map[observe.LockInfo][]string)}
	if !h.s.holdsLeft {
		opts = append(slices.Clip(opts), zklocks.WithObserver(held.observer()))
	}
	// The last option wins: a dialer of the caller's would lead to real servers.
	conn, err := zklocks.Connect(ctx, h.s.Addrs(), sessionTimeout, append(slices.Clip(opts), zklocks.WithDialer(h.Dial))...)
	if err != nil {
		t.Fatalf("zktest: host %s: %v", h.name, err)
	}
	t.Cleanup(func() {
		if bubble() != "" {
			// Of two goroutines that close a connection the second waits for a mutex, and the clock
			// of the bubble, which the first may need, stands still. A Close that the test has
			// begun ends within a second.
			time.Sleep(time.Second + time.Millisecond)
		}
		for _, line := range held.left() {
			t.Errorf("zktest: host %s: a hold is not released when the test ends: %s", h.name, line)
		}
		conn.Close()
		for range 1000 {
			if conn.Client().State() == zk.StateDisconnected {
				break
			}
			time.Sleep(5 * time.Millisecond) // the client ends by itself, after Close has returned
		}
	})
	return conn
}

// Dial opens a network connection to one of Server.Addrs, for a program that connects itself:
//
//	conn, err := zklocks.Connect(ctx, s.Addrs(), timeout, zklocks.WithDialer(host.Dial))
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return h.dial(ctx, network, addr, false)
}

func (h *Host) dial(ctx context.Context, network, addr string, forgets bool) (net.Conn, error) {
	if why := foreign(h.s.bubble); why != "" {
		return nil, fmt.Errorf("zktest: dial %s: %s", addr, why)
	}
	at := slices.Index(h.s.Addrs(), addr)
	if at < 0 {
		return nil, fmt.Errorf("zktest: dial %s from host %s: not an address of this server, which has %q", addr, h.name, h.s.Addrs())
	}
	d := h.s.clients.dials(ctx, h, forgets)
	conn, err := h.reach(ctx, at)
	if err != nil {
		h.s.clients.failed(d)
		return nil, err
	}
	h.s.clients.opened(d, conn.(*memnet.Conn))
	return conn, nil
}

// reach connects to a member by the host's door to it, behind which faults strike. A dead member is
// dialed itself, because it refuses where the door would accept and close. If that one has been
// restarted by the time at which a partition or a delay lets the dial through, it goes by the door.
func (h *Host) reach(ctx context.Context, member int) (net.Conn, error) {
	if itself := h.s.members[member].inMemory(); !h.s.network.Listening(itself) {
		conn, err := h.from.DialContext(ctx, "tcp", itself)
		if err != nil {
			return nil, err
		}
		_ = conn.Close()
	}
	return h.from.DialContext(ctx, "tcp", h.doors[member])
}

// DialTimeout is Dial for zk.WithDialer:
//
//	conn, events, err := zk.Connect(s.Addrs(), timeout, zk.WithDialer(host.DialTimeout))
func (h *Host) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := h.dial(ctx, network, addr, true)
	if err != nil && h.s.isStopping() {
		// A client that the test has not closed, and that Dial has recorded for the test's failure,
		// dials on a goroutine of its own, without end. It cannot be closed from here, and would
		// end the bubble in a panic about a deadlock.
		runtime.Goexit()
	}
	return conn, err
}

// all is the network between the host and all members.
func (h *Host) all() Link { return Link{h: h} }

// To is the network between the host and one member.
func (h *Host) To(m *Member) Link {
	if m == nil || m.s != h.s {
		panic("zktest: To: the member is nil, or of another server")
	}
	return Link{h: h, m: m}
}

// Requests is the direction from the host to the servers.
func (h *Host) Requests() Link { return h.all().Requests() }

// Replies is the direction from the servers to the host.
func (h *Host) Replies() Link { return h.all().Replies() }

// Partition cuts the host off, as a black hole in the network does: connections stay, and nothing
// arrives, not even the end of a connection. New connections wait.
func (h *Host) Partition() { h.all().Partition() }

// Heal ends Partition, Delay and Freeze, of To, Requests and Replies, too. Connections that have
// lost bytes are cut.
func (h *Host) Heal() { h.all().Heal() }

// Cut ends the host's connections now, as a firewall or a switch that restarts does. New ones get
// through.
func (h *Host) Cut() { h.all().Cut() }

// Delay has each packet arrive that much later, in order.
func (h *Host) Delay(d time.Duration) { h.all().Delay(d) }

// Freeze keeps all packets until Thaw. Nothing is lost.
func (h *Host) Freeze() { h.all().Freeze() }

// Thaw ends Freeze: all that was kept arrives now.
func (h *Host) Thaw() { h.all().Thaw() }

// Refuse ends the host's connections and has new ones refused, as if all servers were dead.
func (h *Host) Refuse() { h.s.check("Refuse"); h.proxy.Refuse() }

// Accept ends Refuse.
func (h *Host) Accept() {
	h.s.check("Accept")
	if err := h.proxy.Accept(); err != nil {
		panic("zktest: Accept: " + err.Error()) // the server has been stopped
	}
}

// A Link is a part of the network: between a host and one server or all, in both directions or one.
type Link struct {
	h   *Host
	m   *Member // nil: all
	way way
}

type way int

const (
	both way = iota
	requests
	replies
)

// Requests is the direction from the host to the server.
func (l Link) Requests() Link { l.way = requests; return l }

// Replies is the direction from the server to the host, of replies and events.
func (l Link) Replies() Link { l.way = replies; return l }

// path is the part of the network in memory.
func (l Link) path(method string) memnet.Path {
	s := l.h.s
	s.check(method)
	to := memnet.Any
	if l.m != nil {
		to = l.m.host
	}
	switch l.way {
	case requests:
		return s.network.OneWay(l.h.name, to)
	case replies:
		return s.network.OneWay(to, l.h.name)
	}
	return s.network.Between(l.h.name, to)
}

// Partition makes a black hole: connections stay, and nothing arrives, not even the end of a
// connection. New connections wait, because they need both directions.
func (l Link) Partition() { l.path("Partition").Partition() }

// Heal ends Partition, Delay and Freeze. Connections that have lost bytes are cut.
func (l Link) Heal() {
	l.path("Heal").Heal()
	if l.m == nil && l.way == both {
		l.h.proxy.Unmute() // cuts what has lost a packet
	}
}

// Cut ends connections now. In one direction, the receiving end alone learns of it, and the other
// one when it next writes.
func (l Link) Cut() { l.path("Cut").Cut() }

// Delay has each packet arrive that much later, in order.
func (l Link) Delay(d time.Duration) { l.path("Delay").Delay(d) }

// Freeze keeps all packets until Thaw. Nothing is lost.
func (l Link) Freeze() { l.path("Freeze").Freeze() }

// Thaw ends Freeze: all that was kept arrives now.
func (l Link) Thaw() { l.path("Thaw").Thaw() }
