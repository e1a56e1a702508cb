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
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
)

// connectTimeout is how long Connect waits for a session.
const connectTimeout = 15 * time.Second

// A Host is where a program under test runs. Its methods break the network between the host and the
// servers, or single packets. The methods of To, Requests and Replies break a part of that network.
//
// A Host is only an address, without processes or memory. For ACLs of the scheme ip its address is
// 127.0.0.1.
type Host struct {
	s     *Server
	name  string
	made  string // file and line of the call of Server.Host
	from  *memnet.Host
	proxy *proxy.Proxy
	doors []string // addresses of the proxy, one for each of s.members; guarded by s.mu
}

func newHost(s *Server, name, made string) *Host {
	h := &Host{s: s, name: name, made: made, from: s.network.Host(name)}
	for _, m := range s.members {
		h.addDoor(m)
	}
	return h
}

// addDoor opens the door to a member: a port of the proxy on the member's host. The network between
// door and member cannot break, so faults between the Host and the member are between the Host and
// the door. The caller holds s.mu.
func (h *Host) addDoor(m *Member) {
	at := h.s.network.Host(m.host)
	var addr string
	var err error
	if h.proxy == nil {
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

// door returns the member with that address, and the address of the host's door to it.
func (h *Host) door(addr string) (m *Member, door string) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	at := slices.IndexFunc(h.s.members, func(m *Member) bool { return m.Addr() == addr })
	if at < 0 {
		return nil, ""
	}
	return h.s.members[at], h.doors[at]
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// Connect connects the host to the server by [zklocks.Connect]. At t's cleanup it closes the
// connection, unless it has been closed before. t fails if there is no session after 15 seconds. It
// also fails if a lock on the connection is still held at the cleanup, unless WithHoldsLeft allows
// it. A zklocks.WithDialer among opts has no effect: the host dials.
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
		h.s.mu.Lock()
		h.s.watchdog.holds = append(h.s.watchdog.holds, held)
		h.s.mu.Unlock()
	}
	// Of several dialers the last wins: the caller's dialer would lead to real servers.
	conn, err := zklocks.Connect(ctx, h.s.Addrs(), sessionTimeout, append(slices.Clip(opts), zklocks.WithDialer(h.Dial))...)
	if err != nil {
		t.Fatalf("zktest: host %s: %v", h.name, err)
	}
	t.Cleanup(func() {
		if bubble() != "" {
			// If the test has begun to close the connection on another goroutine, wait until that
			// call has returned, within a second. Otherwise Close would wait for its mutex, and the
			// clock of the bubble, which the other call may need, would stop.
			time.Sleep(time.Second + time.Millisecond)
		}
		for _, line := range held.left() {
			t.Errorf("zktest: host %s: a hold is not released when the test ends: %s", h.name, line)
		}
		conn.Close()
		for range 1000 {
			if slot.Wire(conn).State() == zk.StateDisconnected {
				break
			}
			time.Sleep(5 * time.Millisecond) // the goroutines end after Close has returned
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
	m, door := h.door(addr)
	if m == nil {
		return nil, fmt.Errorf("zktest: dial %s from host %s: not an address of this server, which has %q", addr, h.name, h.s.Addrs())
	}
	d := h.s.clients.dials(ctx, h, forgets)
	h.s.mu.Lock()
	h.s.arm()
	h.s.mu.Unlock()
	conn, err := h.reach(ctx, m, door)
	if err != nil {
		h.s.clients.failed(d)
		return nil, err
	}
	h.s.clients.opened(d, conn.(*memnet.Conn))
	return conn, nil
}

// reach connects to a member through the host's door, where the faults strike. If the member is
// dead, reach dials the member itself, which refuses, because the door would accept the connection
// and close it. If the member was restarted while a partition or a delay held up the dial, reach
// closes that connection and uses the door.
func (h *Host) reach(ctx context.Context, m *Member, door string) (net.Conn, error) {
	if itself := m.inMemory(); !h.s.network.Listening(itself) {
		conn, err := h.from.DialContext(ctx, "tcp", itself)
		if err != nil {
			return nil, err
		}
		_ = conn.Close()
	}
	return h.from.DialContext(ctx, "tcp", door)
}

// DialTimeout is Dial with the signature that zk.WithDialer needs:
//
//	conn, events, err := zk.Connect(s.Addrs(), timeout, zk.WithDialer(host.DialTimeout))
func (h *Host) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := h.dial(ctx, network, addr, true)
	if err != nil && h.s.isStopping() {
		// The test has not closed this client, so it fails with an error that names the client. The
		// client dials forever: its goroutine must end here, or the bubble would panic about a
		// deadlock.
		runtime.Goexit()
	}
	return conn, err
}

// all returns the network between the host and all members.
func (h *Host) all() Link { return Link{h: h} }

// To returns the network between the host and one member.
func (h *Host) To(m *Member) Link {
	if m == nil || m.s != h.s {
		panic("zktest: To: the member is nil, or of another server")
	}
	return Link{h: h, m: m}
}

// Requests returns the direction from the host to the servers.
func (h *Host) Requests() Link { return h.all().Requests() }

// Replies returns the direction from the servers to the host.
func (h *Host) Replies() Link { return h.all().Replies() }

// Partition cuts the host off, as a black hole in the network does: connections remain open, and
// nothing arrives, not even the end of a connection. New connections wait.
func (h *Host) Partition() { h.all().Partition() }

// Heal ends Partition, Delay and Freeze, also of To, Requests and Replies. Connections that have
// lost bytes are cut.
func (h *Host) Heal() { h.all().Heal() }

// Cut ends the host's connections now, like a restarted switch. New connections are possible.
func (h *Host) Cut() { h.all().Cut() }

// Delay delays each packet by d, and keeps the order.
func (h *Host) Delay(d time.Duration) { h.all().Delay(d) }

// Freeze holds all packets until Thaw. Nothing is lost.
func (h *Host) Freeze() { h.all().Freeze() }

// Thaw ends Freeze: all held packets arrive now.
func (h *Host) Thaw() { h.all().Thaw() }

// Refuse ends the host's connections and refuses new ones, as if all servers were dead.
func (h *Host) Refuse() { h.s.check("Refuse"); h.proxy.Refuse() }

// Accept ends Refuse.
func (h *Host) Accept() {
	h.s.check("Accept")
	if err := h.proxy.Accept(); err != nil {
		panic("zktest: Accept: " + err.Error()) // the server has been stopped
	}
}

// A Link is the network between a host and one or all servers, in both directions or in one.
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

// Requests returns the direction from the host to the server.
func (l Link) Requests() Link { l.way = requests; return l }

// Replies returns the direction from the server to the host: replies and events.
func (l Link) Replies() Link { l.way = replies; return l }

// path returns the link in the in-memory network.
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

// Partition makes a black hole: connections remain open, and nothing arrives, not even the end of a
// connection. New connections wait, because they need both directions.
func (l Link) Partition() { l.path("Partition").Partition() }

// Heal ends Partition, Delay and Freeze. Connections that have lost bytes are cut.
func (l Link) Heal() {
	l.path("Heal").Heal()
	if l.m == nil && l.way == both {
		l.h.proxy.Unmute() // cuts connections that have lost a packet
	}
}

// Cut ends connections now. In one direction only the receiving end detects it; the other end
// detects it at its next write.
func (l Link) Cut() { l.path("Cut").Cut() }

// Delay delays each packet by d, and keeps the order.
func (l Link) Delay(d time.Duration) { l.path("Delay").Delay(d) }

// Freeze holds all packets until Thaw. Nothing is lost.
func (l Link) Freeze() { l.path("Freeze").Freeze() }

// Thaw ends Freeze: all held packets arrive now.
func (l Link) Thaw() { l.path("Thaw").Thaw() }
