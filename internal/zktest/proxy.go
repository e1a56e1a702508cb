package zktest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between clients and one server, understands their packets, and
// breaks things at the packet that a test names.
//
//	p := zktest.ProxyFor(t, server.Addr())
//	conn := zktest.Connect(t, 4*time.Second, p.Addr())
//	lost := p.Next(zktest.CreateOp, zktest.CutAfterCommit)
//	...
//	<-lost.Fired()
type Proxy struct {
	addr  string
	bytes bool // not ZooKeeper's client protocol: forwards, cuts and mutes only

	mu       sync.Mutex
	target   string
	listener net.Listener // nil while refusing
	conns    map[*proxyConn]struct{}
	faults   []*Fault
	hook     func(Op)
	greeting func(io.Reader) ([]byte, error) // of bytes; see onGreeting
	mute     [2]bool                         // by direction
	session  int64                           // of the last handshake that was answered
	passwd   []byte
	closed   bool

	wg             sync.WaitGroup
	seen           [numOps]atomic.Int64
	notifications  atomic.Int64
	hideContainers atomic.Bool
}

// direction says which way a packet goes.
type direction int

const (
	toServer direction = iota
	toClient
)

// proxies lets Expire go around a proxy that is muted, refusing, or armed.
var proxies sync.Map // proxy address -> *Proxy

func behindProxy(addr string) string {
	for {
		p, ok := proxies.Load(addr)
		if !ok {
			return addr
		}
		addr = p.(*Proxy).Target()
	}
}

// NewProxy forwards connections made to its Addr to target.
func NewProxy(target string) (*Proxy, error) { return newProxy(target, false) }

func newProxy(target string, bytes bool) (*Proxy, error) {
	var err error
	for range startTries {
		var ports []int
		if ports, err = freePorts(1); err != nil {
			return nil, err
		}
		p := &Proxy{
			addr:   fmt.Sprintf("%s:%d", host, ports[0]),
			bytes:  bytes,
			target: target,
			conns:  make(map[*proxyConn]struct{}),
		}
		if err = p.Accept(); err == nil {
			proxies.Store(p.addr, p)
			return p, nil
		}
	}
	return nil, err
}

// ProxyFor is a Proxy that is closed at cleanup.
func ProxyFor(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := NewProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Addr is the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.addr }

// Target is where the next connection goes.
func (p *Proxy) Target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// SetTarget sends the next connections to another server, so that a reconnect
// can land on another member. Present ones stay.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Close ends everything and waits for the proxy's goroutines. It must not be
// called from the OnRequest hook.
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
	proxies.Delete(p.addr)
}

// Cut cuts all live connections now. Requests already forwarded reach the
// server.
func (p *Proxy) Cut() {
	for _, c := range p.live(func(*proxyConn) bool { return true }) {
		c.cut()
	}
}

// Refuse cuts all connections and has new ones refused, as a server that is
// down does.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l != nil {
		l.Close()
	}
	p.Cut()
}

// Accept ends a Refuse. The error is that the port was taken meanwhile.
func (p *Proxy) Accept() error {
	var err error
	poll(5*time.Second, func() bool {
		err = p.listen()
		return err == nil || p.isClosed()
	})
	return err
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("zktest: proxy is closed")
	}
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("zktest: proxy: %w", err)
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		c := &proxyConn{
			proxy:   p,
			client:  client,
			gone:    make(chan struct{}),
			pending: make(map[int32]*Fault),
		}
		p.mu.Lock()
		if p.listener != l { // refusing since
			p.mu.Unlock()
			client.Close()
			return
		}
		p.conns[c] = struct{}{}
		p.wg.Go(c.serve)
		p.mu.Unlock()
	}
}

// Mute makes a black hole: connections stay and are accepted, and nothing goes
// through, in either direction; not even the end of a connection.
func (p *Proxy) Mute() { p.setMute(true, true) }

// MuteReplies lets requests through and swallows what the server says.
func (p *Proxy) MuteReplies() { p.setMute(false, true) }

// Unmute ends Mute and MuteReplies. Connections that have lost a packet are
// cut, for what was swallowed is gone for good.
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

// swallows reports whether c's packet is lost, and remembers that it was. Both
// under one lock, so that Unmute overlooks none. From then on all are lost,
// also between the two steps of Unmute: no network makes a stream with a gap,
// and a follower that reads one has other data than its leader from then on.
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

// Next arms a fault for the next request of that kind, on any connection.
func (p *Proxy) Next(op Op, action Action) *Fault { return p.Nth(op, 1, action) }

// Nth arms a fault for the n-th request of that kind from now on; 1 is the next.
func (p *Proxy) Nth(op Op, n int, action Action) *Fault {
	return p.Where(func(r Request) bool { return r.Is(op) }, n, action)
}

// Where arms a fault for the n-th request that matches; of several faults that
// are due at one request, the one armed first strikes, the others wait for
// their next. match is called with the proxy locked: it must only look.
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

// struck is the fault that strikes r, nil when none does.
func (p *Proxy) struck(r Request) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var strikes *Fault
	for _, f := range p.faults {
		if !f.match(r) {
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

// OnRequest has f called with each request before it is forwarded, and before
// faults see it; nil removes it. f runs on the connection's goroutine: while it
// works, the request waits. It may call any method but Close.
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

// Session is the session that a client had, or got, in the last handshake that
// a server answered, and its password. 0: there was none. EndSession ends it.
func (p *Proxy) Session() (id int64, passwd []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session, p.passwd
}

// welcomed reads a server's answer to a handshake.
func (p *Proxy) welcomed(body []byte) {
	d := decoder{rest: body}
	d.take(8) // version of the protocol, timeout
	id := d.take(8)
	passwd := d.bytes()
	if d.short {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.passwd = int64(binary.BigEndian.Uint64(id)), slices.Clone(passwd)
}

// Seen is how many such requests were forwarded to a server.
func (p *Proxy) Seen(op Op) int64 { return p.seen[op].Load() }

func (p *Proxy) count(r Request) {
	for op := range numOps {
		if r.Is(op) {
			p.seen[op].Add(1)
		}
	}
}

// Notifications is how many watch events were forwarded to clients.
func (p *Proxy) Notifications() int64 { return p.notifications.Load() }
