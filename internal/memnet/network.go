package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// Any stands for every other host in a fault.
	Any = "*"

	// The network picks ports from the range that most systems use.
	firstPort, numPorts = 32768, 28232
)

// A Network connects hosts. All methods may be called from several goroutines.
type Network struct {
	// mu guards the network and its connections. No goroutine blocks while it holds mu.
	mu        sync.Mutex
	hosts     map[string]bool
	listeners map[string]*Listener // by address
	conns     map[*Conn]struct{}   // both ends of each connection that is not closed at both
	rules     []rule               // newest last
	latency   time.Duration
	changed   chan struct{} // closed at the next change of rules
	ports     int
	closed    bool
}

// New returns a network without hosts.
func New() *Network {
	return &Network{
		hosts:     make(map[string]bool),
		listeners: make(map[string]*Listener),
		conns:     make(map[*Conn]struct{}),
		changed:   make(chan struct{}),
	}
}

// A Host is an origin of connections. Two hosts with the same name are the same host.
type Host struct {
	n    *Network
	name string
}

// Host adds a host to the network. It panics if name is empty or Any.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.know(name)
	return &Host{n, name}
}

// know adds a host; caller holds mu.
func (n *Network) know(name string) {
	if name == "" || name == Any {
		panic(fmt.Sprintf("memnet: host name %q", name))
	}
	n.hosts[name] = true
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// Addr is the address of an end of a connection, "host:port".
type Addr string

// Network returns "tcp", because the connections behave like TCP.
func (Addr) Network() string  { return "tcp" }
func (a Addr) String() string { return string(a) }

func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// port picks a port for an outgoing connection or a listener; caller holds mu.
func (n *Network) port() string {
	n.ports++
	return strconv.Itoa(firstPort + n.ports%numPorts)
}

// Close cuts all connections and closes all listeners. Later dials and listens fail.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for c := range n.conns {
		c.reset()
	}
	for _, l := range n.listeners {
		l.close()
	}
	n.wake()
}

// SetLatency delays everything that is sent from now on between different hosts by d, in addition
// to any Path.Delay; Heal does not end it. It is 0 in a new Network, where answers take no time. In
// a synctest bubble a goroutine that polls then stops the clock, because some goroutine can always
// run.
func (n *Network) SetLatency(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency = d
	n.reroute()
}

// wake makes waiting dials try again; caller holds mu.
func (n *Network) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// A Listener accepts connections to one address.
type Listener struct {
	n       *Network
	addr    Addr
	cond    sync.Cond
	backlog []*Conn
	closed  bool
}

// Listen listens on "host:port" and adds the host; for port 0 the network picks a free port.
func (n *Network) Listen(addr string) (net.Listener, error) {
	fail := func(err error) (net.Listener, error) {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr(addr), Err: err}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fail(err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fail(errors.New("the port is no number"))
	}
	if host == "" || host == Any {
		return fail(errors.New("the address names no host"))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return fail(net.ErrClosed)
	}
	for port == "0" {
		addr = net.JoinHostPort(host, n.port())
		if n.listeners[addr] == nil {
			break
		}
	}
	if n.listeners[addr] != nil {
		return fail(os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	n.know(host)
	l := &Listener{n: n, addr: Addr(addr)}
	l.cond.L = &n.mu
	n.listeners[addr] = l
	return l, nil
}

// Listening reports whether a listener has the address.
func (n *Network) Listening(addr string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listeners[addr] != nil
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	for {
		if l.closed {
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
		}
		if len(l.backlog) > 0 {
			c := l.backlog[0]
			l.backlog = slices.Delete(l.backlog, 0, 1)
			return c, nil
		}
		l.cond.Wait()
	}
}

// Close ends Accept and frees the address. It resets connections that Accept has not returned.
func (l *Listener) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.close()
	return nil
}

func (l *Listener) close() {
	l.closed = true
	delete(l.n.listeners, string(l.addr))
	for _, c := range l.backlog {
		c.send(packet{kind: rst})
		c.shut()
	}
	l.backlog = nil
	l.cond.Broadcast()
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.addr }

// timeoutError is the error of a dial whose context's deadline has passed, as in package net.
type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (timeoutError) Is(err error) bool {
	return err == context.DeadlineExceeded || err == os.ErrDeadlineExceeded
}

// DialContext connects the host to an address. If no listener has the address, it fails after the
// network's delay. While a partition or a freeze separates the hosts, in either direction,
// DialContext waits until the fault ends or ctx is canceled.
func (h *Host) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr(addr), Err: err}
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return fail(net.UnknownNetworkError(network))
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fail(err)
	}
	due := time.Time{} // when the answer to the dial arrives; zero: the dial was not sent
	for {
		if err := ctx.Err(); err != nil {
			if err == context.DeadlineExceeded {
				return fail(timeoutError{})
			}
			return fail(err)
		}
		h.n.mu.Lock()
		out, back := h.n.way(h.name, host), h.n.way(host, h.name)
		changed := h.n.changed
		blocked := !h.n.closed && (out.hole || back.hole || out.frozen || back.frozen)
		if !blocked {
			if due.IsZero() {
				due = time.Now().Add(out.delay + back.delay)
			}
			if h.n.closed || !time.Now().Before(due) {
				c, err := h.n.connect(h.name, host, addr)
				h.n.mu.Unlock()
				if err != nil {
					return fail(err)
				}
				return c, nil
			}
		}
		h.n.mu.Unlock()

		if blocked {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		late := time.NewTimer(time.Until(due))
		select {
		case <-late.C:
		case <-changed:
		case <-ctx.Done():
		}
		late.Stop()
	}
}

// connect makes a connection and gives one end to the listener; caller holds mu.
func (n *Network) connect(from, to, addr string) (*Conn, error) {
	if n.closed {
		return nil, net.ErrClosed
	}
	if !n.hosts[to] {
		return nil, &net.DNSError{Err: "no such host", Name: to, IsNotFound: true}
	}
	l := n.listeners[addr]
	if l == nil {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	client := newConn(n, Addr(net.JoinHostPort(from, n.port())), l.addr)
	server := newConn(n, client.remote, client.local)
	client.peer, server.peer = server, client
	for _, c := range []*Conn{client, server} {
		c.way = n.way(hostOf(string(c.remote)), hostOf(string(c.local)))
		n.conns[c] = struct{}{}
	}
	l.backlog = append(l.backlog, server)
	l.cond.Signal()
	return client, nil
}

// Listen is Network.Listen for this host: addr is an address of the host, or empty for a free port.
func (h *Host) Listen(addr string) (net.Listener, error) {
	if addr == "" {
		addr = net.JoinHostPort(h.name, "0")
	}
	if host := hostOf(addr); host != h.name {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr(addr), Err: fmt.Errorf("not an address of %s", h.name)}
	}
	return h.n.Listen(addr)
}
