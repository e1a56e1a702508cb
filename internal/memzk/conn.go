package memzk

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// sessionlessTimeout is how long a connection without a session may be silent. It is also the
// length of the buckets in which a member closes connections that are silent for longer than their
// session's timeout.
const sessionlessTimeout = 10 * time.Second

// conn is a client's connection. All fields but nc, wake, gone and done are guarded by Ensemble.mu.
type conn struct {
	m      *Member
	nc     net.Conn
	number int64         // in the order of arrival
	wake   chan struct{} // wakes the writing goroutine: there is output
	gone   chan struct{} // closed with the connection
	done   chan struct{} // closed when the reading goroutine has ended

	session     int64
	timeout     time.Duration
	auth        []ident
	sasl        SASLStep // nil: no exchange has begun
	hasUser     bool     // the exchange is complete
	readOnly    bool     // the client knows of read-only servers, and expects their flag in the answer
	initialized bool     // the connect request has arrived
	established bool     // the connect request was answered
	ready       chan struct{}
	ending      bool // the connection closes when all output is written; no output is added
	closed      bool
	active      time.Duration // when a packet was last read or written

	queue []*request // requests without a reply, from head on
	head  int

	out, spare []byte
	writing    bool // a goroutine writes output, including output that is added meanwhile

	dataPaths, childPaths map[string]struct{}
}

func (m *Member) newConn(nc net.Conn) *conn {
	m.e.accepted++
	c := &conn{
		m: m, nc: nc, number: m.e.accepted,
		wake: make(chan struct{}, 1), gone: make(chan struct{}), done: make(chan struct{}),
		timeout: sessionlessTimeout, active: m.e.now(),
		dataPaths: map[string]struct{}{}, childPaths: map[string]struct{}{},
	}
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1}) // of a connection in memory
	if addr := nc.RemoteAddr(); addr != nil {
		if ap, err := netip.ParseAddrPort(addr.String()); err == nil {
			ip = ap.Addr().Unmap().WithZone("")
		}
	}
	c.auth = []ident{{"ip", ip.String()}}
	m.conns[c] = struct{}{}
	m.setIdleAlarm(c)
	return c
}

// read is the reading goroutine: it handles each request and writes the output, unless the writing
// goroutine is writing.
func (c *conn) read() {
	e := c.m.e
	buf := make([]byte, 4096)
	have := 0
	for {
		n, err := c.nc.Read(buf[have:])
		have += n
		if n == 0 && err != nil {
			return
		}
		e.lock()
		used, going := c.handle(buf[:have])
		e.unlock()
		if !going || err != nil {
			return
		}
		have = copy(buf, buf[used:have])
		if need := frameSize(buf[:have]); need > len(buf) {
			buf = append(buf[:have], make([]byte, need-have)...)
		} else if len(buf) > 64<<10 && need < 4096 {
			buf = append(make([]byte, 0, 4096), buf[:have]...)[:4096]
		}
	}
}

// frameSize returns the size of the first packet in b, including its length; 0 if b has less than a
// length.
func frameSize(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	return 4 + int(binary.BigEndian.Uint32(b))
}

// handle handles all complete packets in b; caller holds mu. It releases mu while the member is
// paused, and while output is written.
func (c *conn) handle(b []byte) (used int, going bool) {
	if !c.await() {
		return 0, false
	}
	c.active = c.m.e.now()
	owned := c.own()
	for !c.closed && !c.ending {
		rest := b[used:]
		if len(rest) < 4 {
			break
		}
		if !c.initialized {
			if word := string(rest[:4]); knownWord(word) {
				c.m.packetsIn++
				c.out = append(c.out, c.m.word(word)...)
				c.ending = true
				break
			}
		}
		size := binary.BigEndian.Uint32(rest)
		if size > maxPacket || !c.m.serves() {
			c.shut()
			break
		}
		if len(rest)-4 < int(size) {
			break
		}
		c.m.packetsIn++
		used += 4 + int(size)
		c.packet(rest[4 : 4+size])
		if c.initialized && !c.established && !c.closed && !c.ending {
			// Read no further packet until the session is established.
			if owned {
				c.flush()
			}
			if !c.awaitSession() {
				return used, false
			}
			owned = c.own()
		}
	}
	if owned {
		c.flush()
	}
	return used, !c.closed && !c.ending
}

// await waits while the member is paused; caller holds mu. It returns false if the connection was
// closed.
func (c *conn) await() bool {
	for c.m.paused && !c.closed {
		gate := c.m.gate
		c.m.e.unlock()
		select {
		case <-gate:
		case <-c.gone:
		}
		c.m.e.lock()
	}
	return !c.closed
}

func (c *conn) awaitSession() bool {
	for !c.established && !c.closed && !c.ending {
		if c.ready == nil {
			c.ready = make(chan struct{})
		}
		ready := c.ready
		c.m.e.unlock()
		select {
		case <-ready:
		case <-c.gone:
		}
		c.m.e.lock()
	}
	return !c.closed && !c.ending
}

// own makes the caller the goroutine that writes output, unless another goroutine writes. If it
// returns true, the caller must call flush.
func (c *conn) own() bool {
	if c.writing {
		return false
	}
	c.writing = true
	return true
}

// flush writes output until there is none; caller holds mu, which is released during each write.
func (c *conn) flush() {
	for len(c.out) > 0 && !c.closed {
		b := c.out
		c.out, c.spare = c.spare[:0], nil
		c.active = c.m.e.now()
		c.m.e.unlock()
		_, err := c.nc.Write(b)
		c.m.e.lock()
		if cap(b) <= 64<<10 {
			c.spare = b
		}
		if err != nil {
			c.shut()
		}
	}
	c.writing = false
	if c.ending {
		c.shut()
	}
}

// write is the writing goroutine. It writes output that timers and other connections' requests add.
func (c *conn) write() {
	for {
		select {
		case <-c.wake:
			c.m.e.lock()
			c.flush()
			c.m.e.unlock()
		case <-c.done:
			return
		}
	}
}

// wrote makes a goroutine write the output that was just added.
func (c *conn) wrote() {
	c.m.packetsOut++
	if c.own() {
		c.wake <- struct{}{} // the channel has room, because the writing goroutine is idle
	}
}

// end closes the connection when all output is written.
func (c *conn) end() {
	c.ending = true
	if c.own() {
		c.wake <- struct{}{}
	}
}

// shut closes the connection now. Output that is not written is lost.
func (c *conn) shut() {
	if c.closed {
		return
	}
	c.closed = true
	close(c.gone)
	m := c.m
	delete(m.conns, c)
	if m.bySession[c.session] == c {
		delete(m.bySession, c.session)
	}
	m.watches.forget(c)
	c.queue, c.head = nil, 0
	m.e.toClose = append(m.e.toClose, c.nc)
}

func (c *conn) mute() bool { return c.closed || c.ending }

// packet handles a packet, without its length.
func (c *conn) packet(b []byte) {
	d := jute.Decoder{Rest: b}
	if !c.initialized {
		c.connect(&d)
		return
	}
	xid, op := d.Int32(), d.Int32()
	if d.Bad {
		c.shut()
		return
	}
	if op == jute.OpAuth {
		c.authPacket(xid, &d)
		return
	}
	if op == jute.OpSASL {
		c.saslPacket(xid, &d)
		return
	}
	if s := c.m.e.cfg.SASL; s != nil && s.Required && !c.hasUser {
		c.reply(xid, 0, jute.CodeRequiresSASL)
		c.end()
		return
	}
	c.m.submit(c, xid, op, d.Rest)
}

// connect handles the first packet.
func (c *conn) connect(d *jute.Decoder) {
	d.Int32() // version of the protocol
	seen := d.Int64()
	timeout := d.Int32()
	id := d.Int64()
	secret := d.Bytes()
	if d.Bad {
		c.shut()
		return
	}
	if len(d.Rest) > 0 {
		c.readOnly = true
	}
	c.initialized = true
	m := c.m
	if seen > m.tree.zxid {
		m.e.note("member %d refuses a client that has seen 0x%x, it has 0x%x itself", m.id, seen, m.tree.zxid)
		c.shut()
		return
	}
	c.timeout = m.clampTimeout(timeout)
	if id == 0 {
		c.setSession(m.nextSession)
		m.nextSession++
		m.openSession(c)
		return
	}
	// As in ZooKeeper, the older connection is closed before the password is checked.
	if old := m.bySession[id]; old != nil {
		old.shut()
	}
	c.setSession(id)
	if password := m.e.password(id); string(secret) != string(password[:]) {
		c.establish(false)
		return
	}
	m.resumeSession(c)
}

func (c *conn) setSession(id int64) {
	c.session = id
	c.m.bySession[id] = c
}

func (c *conn) establish(valid bool) {
	if c.mute() || c.established {
		return
	}
	var id int64
	var timeout int32
	var secret [16]byte
	if valid {
		id, timeout, secret = c.session, int32(c.timeout/time.Millisecond), c.m.e.password(c.session)
	}
	start := len(c.out)
	c.out = append(c.out, 0, 0, 0, 0)
	c.out = jute.AppendInt32(c.out, 0)
	c.out = jute.AppendInt32(c.out, timeout)
	c.out = jute.AppendInt64(c.out, id)
	c.out = jute.AppendBytes(c.out, secret[:])
	if c.readOnly || c.m.e.behavior.readOnlyAlways {
		c.out = jute.AppendBool(c.out, false)
	}
	c.out = endReply(c.out, start)
	c.wrote()
	if !valid {
		c.end()
		return
	}
	c.established = true
	if c.ready != nil {
		close(c.ready)
	}
	c.m.setIdleAlarm(c)
}

// authPacket handles an auth request. Its reply may overtake replies to earlier requests.
func (c *conn) authPacket(xid int32, d *jute.Decoder) {
	d.Int32()
	scheme, secret := d.Text(), d.Bytes()
	if d.Bad {
		c.shut()
		return
	}
	var ok bool
	if c.auth, ok = authenticate(c.auth, scheme, secret); ok {
		c.reply(xid, 0, jute.CodeOK)
		return
	}
	c.reply(xid, 0, jute.CodeAuthFailed)
	c.end()
}

// reply sends a header without a body.
func (c *conn) reply(xid int32, zxid int64, code int32) {
	if c.mute() {
		return
	}
	var start int
	c.out, start = startReply(c.out, xid, zxid, code)
	c.out = endReply(c.out, start)
	c.wrote()
}

func (c *conn) event(kind int32, path string, zxid int64) {
	if c.mute() {
		return
	}
	if !c.m.e.behavior.zxidInEvents {
		zxid = -1
	}
	var start int
	c.out, start = startReply(c.out, jute.XidEvent, zxid, jute.CodeOK)
	c.out = jute.AppendInt32(c.out, kind)
	c.out = jute.AppendInt32(c.out, stateConnected)
	c.out = jute.AppendText(c.out, path)
	c.out = endReply(c.out, start)
	c.wrote()
}

// pending reports whether requests of this connection have no reply yet.
func (c *conn) pending() bool { return c.head < len(c.queue) }

func (c *conn) enqueue(r *request) { c.queue = append(c.queue, r) }

// drain sends the replies that are due, in the order of the requests. A read is answered when all
// writes before it have been answered.
func (c *conn) drain() {
	for c.pending() && !c.mute() {
		r := c.queue[c.head]
		if !r.read && !r.done {
			return
		}
		c.queue[c.head] = nil
		c.head++
		if !c.pending() {
			c.queue, c.head = c.queue[:0], 0
		}
		if r.read {
			c.m.answerRead(c, r.xid, r.op, r.body)
		} else {
			c.answerWrite(r)
		}
	}
}
