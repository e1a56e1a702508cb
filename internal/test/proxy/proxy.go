// Package proxy forwards packets between clients and servers, decodes them, and injects a fault at
// the packet that a test names. It works over TCP and over internal/memnet.
package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// Proxy forwards packets between clients and a server, decodes them, and injects faults.
//
//	p := proxy.For(t, server.Addr())
//	conn := realzk.Connect(t, 4*time.Second, p.Addr())
//	lost := p.Next(proxy.CreateOp, proxy.CutAfterCommit)
//	...
//	<-lost.Fired()
type Proxy struct {
	bytes bool // not ZooKeeper's client protocol: the Proxy only forwards, cuts and mutes

	mu       sync.Mutex
	doors    []*door // at least one; doors are only added
	refusing bool
	conns    map[*proxyConn]struct{}
	faults   []*Fault
	hook     func(Op)
	greeting func(io.Reader) ([]byte, error) // for bytes; see OnGreeting
	mute     [2]bool                         // by direction
	session  int64                           // of the last answered handshake
	passwd   []byte
	closed   bool

	wg            sync.WaitGroup
	seen          [numOps]atomic.Int64
	notifications atomic.Int64
}

// A door is an address of a Proxy, and its target.
type door struct {
	network  Network
	addr     string
	target   string       // guarded by the Proxy's mu, like listener
	listener net.Listener // nil while refusing
}

// direction is the way that a packet takes.
type direction int

const (
	toServer direction = iota
	toClient
)

// proxies lets Expire bypass a proxy that is muted, refusing, or has an armed fault.
var proxies sync.Map // proxy address -> *Proxy

// Behind returns the server to which addr leads: addr itself, or the target of the proxy there.
func Behind(addr string) string {
	for {
		p, ok := proxies.Load(addr)
		if !ok {
			return addr
		}
		addr = p.(*Proxy).Target()
	}
}

// New forwards connections made to its Addr to target, over TCP.
func New(target string) (*Proxy, error) { return On(TCP{}, target) }

// On is New on another network.
func On(network Network, target string) (*Proxy, error) { return newProxy(network, target, false) }

// NewBytes returns a Proxy for any protocol, which only forwards, cuts and mutes.
func NewBytes(target string) (*Proxy, error) { return newProxy(TCP{}, target, true) }

func newProxy(network Network, target string, bytes bool) (*Proxy, error) {
	p := &Proxy{bytes: bytes, conns: make(map[*proxyConn]struct{})}
	addr, err := p.Open(network, target)
	if err != nil {
		return nil, err
	}
	if _, ok := network.(TCP); ok {
		proxies.Store(addr, p)
	}
	return p, nil
}

// Open gives the Proxy another address, which leads to another target, for example another member
// of an ensemble. Addr, Target and SetTarget apply to the first address. All other methods, and
// faults, apply to the connections to all addresses.
func (p *Proxy) Open(network Network, target string) (addr string, err error) {
	l, err := network.Listen("")
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &door{network: network, addr: l.Addr().String(), target: target}
	p.doors = append(p.doors, d)
	if p.refusing || p.closed {
		l.Close()
		return d.addr, nil
	}
	p.serve(d, l)
	return d.addr, nil
}

// serve accepts connections at a door; caller holds mu.
func (p *Proxy) serve(d *door, l net.Listener) {
	d.listener = l
	p.wg.Go(func() { p.accept(d, l) })
}

// For returns a Proxy that is closed at cleanup.
func For(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return ForOn(tb, TCP{}, target)
}

// ForOn is For on another network.
func ForOn(tb testing.TB, network Network, target string) *Proxy {
	tb.Helper()
	p, err := On(network, target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Addr returns the host:port to which clients connect.
func (p *Proxy) Addr() string { return p.first().addr }

func (p *Proxy) first() *door {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doors[0]
}

// Target returns the target of the next connection.
func (p *Proxy) Target() string { return p.targetOf(p.first()) }

func (p *Proxy) targetOf(d *door) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return d.target
}

// SetTarget sets the target of the next connections, so that a client reconnects to another member.
// Present connections remain.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doors[0].target = addr
}

// Close ends everything and waits for the proxy's goroutines. It must not be called from the
// OnRequest hook.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.mu.Lock()
	for c := range p.conns {
		c.end()
	}
	p.mu.Unlock()
	p.wg.Wait()
	proxies.CompareAndDelete(p.Addr(), p)
}

// Cut cuts all live connections now. Requests already forwarded reach the server.
func (p *Proxy) Cut() {
	for _, c := range p.live(func(*proxyConn) bool { return true }) {
		c.cut()
	}
}

// Refuse cuts all connections and refuses new ones, like a dead server.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refusing = true
	for _, d := range p.doors {
		if d.listener != nil {
			d.listener.Close()
			d.listener = nil
		}
	}
	p.mu.Unlock()
	p.Cut()
}

// Accept ends a Refuse. It returns an error if another process has taken the port meanwhile.
func (p *Proxy) Accept() error {
	var err error
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = p.listen(); err == nil || p.isClosed() || time.Now().After(deadline) {
			return err
		}
	}
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("proxy: proxy is closed")
	}
	for _, d := range p.doors {
		if d.listener != nil {
			continue
		}
		l, err := d.network.Listen(d.addr)
		if err != nil {
			return fmt.Errorf("proxy: proxy: %w", err)
		}
		p.serve(d, l)
	}
	p.refusing = false
	return nil
}

func (p *Proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *Proxy) accept(d *door, l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		c := &proxyConn{
			proxy:   p,
			door:    d,
			client:  client,
			gone:    make(chan struct{}),
			pending: make(pending),
		}
		p.mu.Lock()
		if d.listener != l { // Refuse was called meanwhile
			p.mu.Unlock()
			client.Close()
			return
		}
		p.conns[c] = struct{}{}
		p.wg.Go(c.serve)
		p.mu.Unlock()
	}
}

// Mute makes a black hole: connections remain open and are accepted, and nothing passes, in either
// direction, not even the end of a connection.
func (p *Proxy) Mute() { p.setMute(true, true) }

// MuteRequests drops what clients send, and forwards what the server sends.
func (p *Proxy) MuteRequests() { p.setMute(true, false) }

// MuteReplies forwards requests and drops what the server sends.
func (p *Proxy) MuteReplies() { p.setMute(false, true) }

// Unmute ends Mute, MuteRequests and MuteReplies. It cuts connections that have lost a packet.
func (p *Proxy) Unmute() {
	p.setMute(false, false)
	for _, c := range p.live(func(c *proxyConn) bool { return c.lossy[toServer] || c.lossy[toClient] }) {
		c.cut()
	}
}

func (p *Proxy) setMute(requests, replies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute[toServer], p.mute[toClient] = requests, replies
}

// lose makes c lose all packets in a direction, from now on until Unmute cuts c.
func (p *Proxy) lose(c *proxyConn, d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.lossy[d] = true
}

// swallows reports whether c's packet is lost, and records that under the same lock, so that Unmute
// cuts c. All later packets are lost, too, also between the two steps of Unmute: no network makes a
// stream with a gap, and a follower that read such a stream would have data other than its
// leader's.
func (p *Proxy) swallows(c *proxyConn, d direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.lossy[d] = c.lossy[d] || p.mute[d]
	return c.lossy[d]
}

func (p *Proxy) live(which func(*proxyConn) bool) []*proxyConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var conns []*proxyConn
	for c := range p.conns {
		if which(c) {
			conns = append(conns, c)
		}
	}
	return conns
}

// Next arms a fault for the next request of kind op, on any connection.
func (p *Proxy) Next(op Op, action Action) *Fault { return p.Nth(op, 1, action) }

// Nth arms a fault for the n-th request of kind op from now on; 1 is the next.
func (p *Proxy) Nth(op Op, n int, action Action) *Fault {
	return p.Where(func(r Request) bool { return r.Is(op) }, n, action)
}

// Where arms a fault for the n-th request that matches. If several faults are due at one request,
// the fault that was armed first strikes, and the others wait for their next match. match is called
// with the proxy locked: it must not call methods of the proxy.
func (p *Proxy) Where(match func(Request) bool, n int, action Action) *Fault {
	f := &Fault{
		proxy:    p,
		match:    match,
		left:     max(n, 1),
		action:   action,
		fired:    make(chan struct{}),
		released: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

func (p *Proxy) disarm(f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = slices.DeleteFunc(p.faults, func(g *Fault) bool { return g == f })
}

// struck returns the fault that strikes r, or nil.
func (p *Proxy) struck(r Request) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var strikes *Fault
	for _, f := range p.faults {
		if f.action.verb == answer && r.Is(ConnectOp) || !f.match(r) {
			continue
		}
		if f.left > 1 {
			f.left--
		} else if strikes == nil {
			strikes = f
		}
	}
	if strikes != nil {
		p.faults = slices.DeleteFunc(p.faults, func(f *Fault) bool { return f == strikes })
	}
	return strikes
}

// OnRequest calls f with each request, before faults are checked and before the request is
// forwarded. A nil f removes the hook. f runs on the connection's goroutine, so the request waits
// for it. It may call any method but Close.
func (p *Proxy) OnRequest(f func(Op)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = f
}

func (p *Proxy) onRequest(r Request) {
	p.mu.Lock()
	hook := p.hook
	p.mu.Unlock()
	if hook != nil {
		hook(r.Op)
	}
}

// Session returns the session of the last handshake that a server answered, and its password. The
// id is 0 if there was none. EndSession ends the session.
func (p *Proxy) Session() (id int64, passwd []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session, p.passwd
}

// welcomed parses a server's answer to a handshake.
func (p *Proxy) welcomed(body []byte) {
	d := jute.Decoder{Rest: body}
	h := d.Welcome()
	if d.Bad {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.passwd = h.Session, slices.Clone(h.Password)
}

// Seen returns how many requests of kind op were forwarded to a server.
func (p *Proxy) Seen(op Op) int64 { return p.seen[op].Load() }

func (p *Proxy) count(r Request) {
	for op := range numOps {
		if r.Is(op) {
			p.seen[op].Add(1)
		}
	}
}

// Notifications returns how many watch events were forwarded to clients.
func (p *Proxy) Notifications() int64 { return p.notifications.Load() }

// OnGreeting replaces the first bytes of each connection by what f returns.
func (p *Proxy) OnGreeting(f func(from io.Reader) ([]byte, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.greeting = f
}
