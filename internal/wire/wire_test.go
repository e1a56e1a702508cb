package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/jute"
	"github.com/zklocks/zklocks/internal/memnet"
)

const fakeSession = 0x77

// A fakeServer implements just enough of the protocol to grant sessions and to answer pings, reads
// and heartbeats. A test can send other bytes instead.
type fakeServer struct {
	t          testing.TB
	network    *memnet.Network
	listener   net.Listener
	handshakes atomic.Int64
	sessions   atomic.Int64 // that it has granted
	wg         sync.WaitGroup

	mu      sync.Mutex
	packets []written // by clients, in order

	// welcome answers the nth handshake, and answer the requests of the nth connection. If one is
	// nil or returns false, the server sends the default answer.
	welcome func(n int64, c net.Conn) bool
	answer  func(n int64, c net.Conn, xid, op int32) bool
	// late returns how long after the request the default answer is sent; less than 0: never. It
	// may be nil.
	late func(op int32) time.Duration
	// wrap replaces the client's end of each connection; it may be nil.
	wrap func(net.Conn) net.Conn
	slow time.Duration // what writing a heartbeat takes

	away    atomic.Bool // it is not reached
	mute    atomic.Bool // it closes each connection at the handshake
	silent  atomic.Bool // it does not answer reads
	expired atomic.Bool // it answers one handshake that the session is over
}

// A written packet of a client.
type written struct {
	at      time.Time // when the write began
	body    []byte
	xid, op int32
}

// isHeartbeat reports whether the packet is a check of the root and no more.
func (w written) isHeartbeat() bool {
	return w.op == opMulti && bytes.Equal(w.body[8:], Multi(&zk.CheckVersionRequest{Path: "/", Version: anyVersion}).body)
}

// written returns the packets that clients have written from an instant on.
func (f *fakeServer) written(from time.Time) (all []written) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.packets {
		if !w.at.Before(from) {
			all = append(all, w)
		}
	}
	return all
}

// A packetLog is a client's end of a connection, which records what it writes. Each packet is
// one Write.
type packetLog struct {
	net.Conn
	server *fakeServer
}

func (l *packetLog) Write(p []byte) (int, error) {
	if int(int32At(p, 0)) != len(p)-lengthSize {
		l.server.t.Errorf("a write of %d bytes is not one packet", len(p))
	}
	xid, op := int32At(p, lengthSize), int32At(p, lengthSize+4)
	w := written{time.Now(), bytes.Clone(p[lengthSize:]), xid, op}
	l.server.mu.Lock()
	l.server.packets = append(l.server.packets, w)
	l.server.mu.Unlock()
	if w.isHeartbeat() {
		time.Sleep(l.server.slow) // virtual
	}
	return l.Conn.Write(p)
}

func newFakeServer(t testing.TB) *fakeServer {
	network := memnet.New()
	l, err := network.Listen("zk1:2181")
	must(t, err)
	return &fakeServer{t: t, network: network, listener: l}
}

// dial is for WithDialer.
func (f *fakeServer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if f.away.Load() {
		return nil, errors.New("away")
	}
	c, err := f.network.Host("here").DialContext(ctx, network, address)
	if err == nil && f.wrap != nil {
		c = f.wrap(c)
	}
	return &packetLog{c, f}, err
}

// dialAny is for WithDialer: the server has each address.
func (f *fakeServer) dialAny(ctx context.Context, network, _ string) (net.Conn, error) {
	return f.dial(ctx, network, f.listener.Addr().String())
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(5 * time.Second) }) // until the goroutines of closed clients have ended
		f(t)
	})
}

func (f *fakeServer) start() *fakeServer {
	f.wg.Go(func() {
		for {
			c, err := f.listener.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.serve(c) })
		}
	})
	f.t.Cleanup(func() { f.listener.Close(); f.wg.Wait() })
	return f
}

func (f *fakeServer) serve(c net.Conn) {
	defer c.Close()
	n := int64(0)
	for {
		body, err := jute.ReadFrame(c)
		if err != nil {
			return
		}
		if n == 0 {
			n = f.handshakes.Add(1)
			if f.late != nil {
				time.Sleep(f.late(0)) // virtual
			}
			if f.mute.Load() {
				return
			}
			if f.expired.CompareAndSwap(true, false) {
				c.Write(handshakeFrame(0, 0, 16))
				return
			}
			if f.welcome == nil || !f.welcome(n, c) {
				session := int64At(body, 16) // behind the version, the zxid and the timeout
				if session == 0 {
					session = fakeSession + f.sessions.Add(1) - 1
				}
				c.Write(handshakeFrame(uint64(session), 4000, 16))
			}
			continue
		}
		xid, op := int32At(body, 0), int32At(body, 4)
		if op == opGetData && f.silent.Load() {
			continue
		}
		if f.answer != nil && f.answer(n, c, xid, op) {
			continue
		}
		reply := header(xid)
		switch op {
		case opMulti:
			reply = slices.Concat(reply, word(opCheck), []byte{0}, word(0), word(-1), []byte{1}, word(-1))
		case opGetData:
			reply = slices.Concat(reply, word(0), make([]byte, 68))
		case opExists:
			reply = append(reply, make([]byte, 68)...)
		}
		late := time.Duration(0)
		if f.late != nil {
			late = f.late(op)
		}
		switch {
		case late == 0:
			c.Write(frame(reply))
		case late > 0:
			time.AfterFunc(late, func() { c.Write(frame(reply)) })
		}
	}
}

func (f *fakeServer) connect(opts ...Option) *Conn {
	f.t.Helper()
	conn := connectTo(f.t, f, opts...)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func connectTo(t testing.TB, f *fakeServer, opts ...Option) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	opts = slices.Concat([]Option{WithDialer(f.dial)}, opts)
	conn, err := Connect(ctx, []string{f.listener.Addr().String()}, 4*time.Second, opts...)
	must(t, err)
	return conn
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ok reports an error, on any goroutine.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// hangUp closes the network connection.
func (c *Conn) hangUp() {
	c.mu.Lock()
	p := c.current
	c.mu.Unlock()
	p.fail()
}

func frame(body []byte) []byte { return jute.Frame(body) }
func word(n int32) []byte      { return jute.AppendInt32(nil, n) }
func header(xid int32) []byte  { return append(word(xid), make([]byte, 12)...) }

// coded returns a reply with a code and no more.
func coded(xid, code int32) []byte { return frame(append(header(xid)[:12], word(code)...)) }

// reads makes a server answer each read with data, or with a code.
func reads(code int32, data string) func(int64, net.Conn, int32, int32) bool {
	return func(_ int64, c net.Conn, xid, op int32) bool {
		switch {
		case op != opGetData:
			return false
		case code != 0:
			c.Write(coded(xid, code))
		default:
			c.Write(frame(slices.Concat(header(xid), word(int32(len(data))), []byte(data), make([]byte, 68))))
		}
		return true
	}
}

// handshakeFrame returns the answer to a handshake. The length of the password may be wrong.
func handshakeFrame(session uint64, timeout, password uint32) []byte {
	b := jute.AppendInt32(word(0), int32(timeout))
	b = jute.AppendInt32(jute.AppendInt64(b, int64(session)), int32(password))
	return frame(append(b, make([]byte, min(password, 16))...))
}

// If the server's first answer is malformed, nothing may panic, and the next connection must
// work.
func TestMalformedHandshake(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"nothing, and closes":   nil,
		"zero length":           word(0),
		"negative length":       word(-1),
		"4 GiB less 1":          {0xff, 0xff, 0xff, 0xff},
		"2 GiB":                 word(1<<31 - 1),
		"too short":             frame(make([]byte, 10)),
		"password beyond frame": handshakeFrame(1, 4000, 1000),
		"no timeout":            handshakeFrame(1, 0, 16),
		"negative timeout":      handshakeFrame(1, 1<<32-4000, 16),
		"cut in the middle":     handshakeFrame(1, 4000, 16)[:17],
		"HTTP":                  []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.welcome = func(n int64, c net.Conn) bool {
					if n > 1 {
						return false
					}
					c.Write(bytes)
					c.Close()
					return true
				}
				conn := f.start().connect()
				if _, _, err := conn.Client().Get("/"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestMalformedReply(t *testing.T) {
	body := func(xid int32, parts ...[]byte) []byte {
		b := header(xid)
		for _, p := range parts {
			b = append(b, p...)
		}
		return frame(b)
	}
	// calls are the same request, made by a Client and by the locks.
	type calls []func(*Conn) error
	own := func(r Request) func(*Conn) error {
		return func(c *Conn) error { _, err := c.Ask(context.Background(), AnySession, r); return err }
	}
	check := &zk.CheckVersionRequest{Path: "/"}
	get := calls{func(c *Conn) error { _, _, err := c.Client().Get("/"); return err }, own(GetData("/"))}
	children := calls{func(c *Conn) error { _, _, err := c.Client().Children("/"); return err }, own(Children("/"))}
	acl := calls{func(c *Conn) error { _, _, err := c.Client().GetACL("/"); return err }}
	multi := calls{func(c *Conn) error { _, err := c.Client().Multi(check); return err }, own(Multi(check))}
	event := func(parts ...[]byte) func(int32) []byte {
		return func(int32) []byte { return body(xidEvent, parts...) }
	}
	for name, tc := range map[string]struct {
		calls calls
		send  func(xid int32) []byte
	}{
		"zero length":           {get, func(int32) []byte { return word(0) }},
		"length 15":             {get, func(x int32) []byte { return append(frame(header(x)[:15]), make([]byte, 99)...) }},
		"length 4":              {get, func(x int32) []byte { return append(frame(header(x)[:4]), make([]byte, 99)...) }},
		"negative length":       {get, func(int32) []byte { return word(-5) }},
		"length 2 GiB":          {get, func(int32) []byte { return word(1<<31 - 1) }},
		"just above 64 MiB":     {get, func(int32) []byte { return word(maxReply + 1) }},
		"cut in the header":     {get, func(x int32) []byte { return body(x)[:9] }},
		"data of 2 GiB":         {get, func(x int32) []byte { return body(x, word(1<<31-1), make([]byte, 68)) }},
		"2 billion children":    {children, func(x int32) []byte { return body(x, word(1<<31-1), make([]byte, 68)) }},
		"-2 children":           {children, func(x int32) []byte { return body(x, word(-2), make([]byte, 68)) }},
		"no body":               {acl, func(x int32) []byte { return body(x) }},
		"ACL cut in its count":  {acl, func(x int32) []byte { return body(x, []byte{0xff}) }},
		"an element a byte":     {children, func(x int32) []byte { return body(x, word(68), make([]byte, 68)) }},
		"2 billion ACL entries": {acl, func(x int32) []byte { return body(x, word(1<<31-1), make([]byte, 68)) }},
		"Multi without an end":  {multi, func(x int32) []byte { return body(x, word(opCheck), []byte{0}, word(0)) }},
		"Multi cut in a header": {multi, func(x int32) []byte { return body(x, word(opCheck)) }},
		"a long Multi cut in a header": {multi, func(x int32) []byte {
			return body(x, bytes.Repeat(append(word(opCheck), 0, 0, 0, 0, 0), readBuffer/8), word(opCheck))
		}},
		"event without a body":         {get, event()},
		"event without a path":         {get, event(word(2), word(3))},
		"event with half a path":       {get, event(word(2), word(3), word(9), []byte("/abc"))},
		"event with a negative length": {get, event(word(2), word(3), word(-1), []byte("/abc"))},
		"Multi with a path of 2 GB":    {multi, func(x int32) []byte { return body(x, word(opCreate), []byte{0}, word(0), word(1<<31-1)) }},
	} {
		for i, call := range tc.calls {
			t.Run(fmt.Sprintf("%s, %d", name, i), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T) {
					f := newFakeServer(t)
					var once sync.Once
					f.answer = func(n int64, c net.Conn, xid, op int32) (done bool) {
						if n == 1 && op != 11 {
							once.Do(func() { c.Write(tc.send(xid)); c.(*memnet.Conn).CloseWrite(); done = true })
						}
						return done
					}
					conn := f.start().connect()
					if err := call(conn); !errors.Is(err, zk.ErrConnectionClosed) {
						t.Errorf("got %v, want a lost connection", err)
					}
					for conn.Epoch() == 1 { // the end is noticed a little later
						time.Sleep(time.Millisecond) // virtual
					}
					if err := get[0](conn); err != nil {
						t.Error("after the reconnect:", err)
					}
					if n := f.handshakes.Load(); n != 2 {
						t.Errorf("%d handshakes, want 2", n)
					}
				})
			})
		}
	}
}
