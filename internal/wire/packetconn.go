package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	readBuffer = 32 << 10
	// throttlePause is the pause before a request that an overloaded server has dropped is sent
	// again.
	throttlePause = 100 * time.Millisecond
	// refusalPause is how long a connection lasts if the server refuses the credentials. Another
	// server, or this server after a change of its configuration, may accept them.
	refusalPause = time.Second
)

// A packetConn is one network connection as go-zookeeper sees it. It inspects each packet that
// passes. go-zookeeper writes one packet per Write, and never from two goroutines at once. Between
// these packets the packetConn sends its own requests: the locks' requests, heartbeats, and
// requests that set and remove watches.
type packetConn struct {
	net.Conn
	conn    *Conn
	server  string        // as given to Connect or SetServers
	address string        // as dialed
	limit   time.Duration // for the handshake, and again for SASL
	sasl    SASLExchange  // nil: none

	// Only the reading goroutine uses in, buf and left.
	in   *bufio.Reader
	buf  []byte // the current frame, with its length in front
	left []byte // the rest of buf, which go-zookeeper has not read yet

	sending sync.Mutex // tier 3; held while a packet is written, so that packets do not mix

	// conn.mu guards what follows.
	phase    phase
	pastAuth bool             // a request other than credentials was sent
	asked    time.Time        // when the handshake was sent
	sent     map[int32]packet // by xid: the requests that are not answered yet
	queue    []outgoing       // the packetConn's own requests that are not sent yet
	waits    bool             // the queue waits until pastAuth
	sends    bool             // a goroutine sends the queue
	leaving  bool             // the queue waits until the connection ends
	drained  chan struct{}    // closed when it leaves and all requests are answered; nil: it was closed, or does not leave
	watches  watches
}

type phase int

const (
	fresh     phase = iota // nothing sent
	handshake              // asked for a session
	running                // a server has granted the session
	broken                 // the connection has failed or was closed, or the session is over
)

// A packet is a request that was sent.
type packet struct {
	op        int32
	at        time.Time   // before it was written
	later     []time.Time // of the pings after it, which have the same xid
	heartbeat bool
	answered  func(Reply, error) // see outgoing; nil: the request is go-zookeeper's, or a heartbeat
}

// An outgoing is a request of the packetConn's own. The caller of its functions holds conn.mu.
type outgoing struct {
	Request
	ready func() bool // reports whether the request is still to be sent, right before it is; nil: it is
	// answered is called once. If there is no reply, the error is ErrUnsent or
	// zk.ErrConnectionClosed.
	answered func(Reply, error)
}

func newPacketConn(c *Conn, conn net.Conn, server, address string, limit time.Duration) *packetConn {
	return &packetConn{
		Conn: conn, conn: c, server: server, address: address, limit: limit,
		in:   bufio.NewReaderSize(conn, readBuffer),
		sent: make(map[int32]packet),
	}
}

// Write sends one packet. Once there is a session, Write returns no error. If the connection is
// lost, go-zookeeper's next Read fails.
//
// If a Write failed, go-zookeeper would answer the request twice: at once, and with all other lost
// requests. The channel of a request that sends credentials again has room for one answer, so its
// main goroutine would block forever. Callers would also receive the network's error instead of
// zk.ErrConnectionClosed.
func (p *packetConn) Write(b []byte) (int, error) {
	if _, op := request(b); op == opClose {
		p.conn.markClosed() // notifies the holders before the server ends the session
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	n, err := p.Conn.Write(p.note(b))
	if err == nil {
		return n, nil
	}
	if p.fail(err) < running {
		return n, err
	}
	return len(b), nil
}

// note records a packet of go-zookeeper before it is sent, so that the time is never later than the
// server's. It returns the bytes to send.
func (p *packetConn) note(b []byte) (send []byte) {
	c, now := p.conn, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p.phase {
	case fresh:
		p.phase = handshake
		p.asked = now
		b = bytes.Clone(b) // go-zookeeper's
		if int64At(b, sessionInRequest) == 0 {
			// go-zookeeper asks for the timeout of the last session. So the limits of one server
			// would bind all later sessions.
			binary.BigEndian.PutUint32(b[timeoutInRequest:], uint32(c.timeout.Milliseconds()))
			c.resume.into(b)
		} else {
			// A server that has not applied what go-zookeeper has read must refuse the session.
			binary.BigEndian.PutUint64(b[zxidInRequest:], uint64(c.zxid.Load()))
		}
		// go-zookeeper's own deadline is 6.7 session timeouts, and its second read has no deadline.
		p.Conn.SetDeadline(now.Add(p.limit))
	case running:
		xid, op := request(b)
		if op == opSetAuth {
			c.credentials = true
		} else if p.early() {
			p.pastAuth = true
			c.beatAt(now)
			if p.waits {
				p.waits = false
				p.startSending()
			}
		}
		r, again := p.sent[xid]
		if again { // all pings have one xid
			r.later = append(r.later, now)
		} else {
			r = packet{op: op, at: now}
		}
		p.sent[xid] = r
	}
	return b
}

// Read returns the server's frames to go-zookeeper, each after it has been inspected.
func (p *packetConn) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		p.conn.mu.Lock()
		next := p.nextFrame
		if p.phase == handshake {
			next = p.readHandshake
		}
		p.conn.mu.Unlock()
		if err := next(); err != nil {
			err = p.conn.at(p.address, err)
			p.fail(err)
			return 0, err
		}
		p.left = p.buf
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// nextFrame reads the next frame for go-zookeeper, after the handshake.
func (p *packetConn) nextFrame() error {
	for {
		err := p.readFrame(replyHeader, maxReply)
		forClient := false
		if err == nil {
			forClient, err = p.reply(p.buf)
		}
		if err != nil || forClient {
			return err
		}
	}
}

// readFrame reads a frame into buf. The frame must have at least "least" and at most "most" bytes.
func (p *packetConn) readFrame(least, most int) error {
	if cap(p.buf) > readBuffer {
		p.buf = nil // a large reply is rare
	}
	p.buf = append(p.buf[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(p.in, p.buf); err != nil {
		return err
	}
	n := int(int32At(p.buf, 0))
	if n < least || n > most {
		return fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	p.buf = slices.Grow(p.buf, n)[:lengthSize+n]
	_, err := io.ReadFull(p.in, p.buf[lengthSize:])
	return err
}

// readHandshake reads the answer to the handshake.
func (p *packetConn) readHandshake() error {
	err := p.readFrame(minHandshake, maxHandshake)
	switch {
	case string(p.buf[:lengthSize]) == "HTTP":
		return errors.New("the server speaks HTTP: this is not ZooKeeper's client port")
	case errors.Is(err, errFrame):
		return err
	case p.conn.IsClosed():
		return net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.conn.hosts.hung()
		return fmt.Errorf("accepted the connection, but did not answer the handshake within %v", p.limit)
	case err != nil:
		return errors.New("closed the connection during the handshake " +
			"(not part of a quorum? TLS expected? maxClientCnxns reached? data older than the client has seen?)")
	}
	session, granted, err := connectReply(p.buf)
	if err != nil {
		return err
	}
	if session != 0 {
		password := decoder{rest: p.buf[passwordInHandshake:]}
		if err := p.admit(session, password.bytes()); err != nil {
			return err
		}
	}
	c := p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.phase != handshake {
		return net.ErrClosed
	}
	p.Conn.SetDeadline(time.Time{})
	c.hosts.answered()
	if session == 0 {
		p.phase = broken
		c.zxid.Store(0)
		c.expire()
		return nil
	}
	p.phase = running
	c.begin(session, granted, p.asked)
	c.beatAt(time.Now())
	c.hosts.timeout = c.Timeout()
	if shortest := c.hosts.timeout; 0 < shortest && shortest < granted {
		// By this timeout go-zookeeper sends its pings, and leaves a server that does not answer.
		binary.BigEndian.PutUint32(p.buf[timeoutInHandshake:], uint32(shortest.Milliseconds()))
	}
	return nil
}

// admit prepares a session that a server has granted or resumed, before go-zookeeper knows of it.
// On an error the connection fails. The caller does not hold conn.mu, which a server that hangs or
// a slow disk would block.
func (p *packetConn) admit(session int64, password []byte) error {
	if p.sasl != nil {
		answer := p.buf // the password is a part of it
		p.buf = nil
		err := p.authenticate()
		p.buf = answer
		if err != nil {
			p.conn.refused(err)
			return err
		}
	}
	p.conn.record(session, password)
	return nil
}

// takeZxid records the zxid of the reply to a request, and replaces it with 0.
//
// go-zookeeper has a data race here. After a reconnect one goroutine reads the last zxid to set its
// watches again, while another goroutine stores the zxid of a reply. If the first reads a zxid that
// is too new, the watches miss events. Now it always reads 0, so the server fires all of these
// watches after a reconnect. The handshake states the real zxid, see note.
func (p *packetConn) takeZxid(head []byte) {
	if zxid := int64At(head, zxidInReply); zxid > 0 {
		p.conn.zxid.Store(zxid)
	}
	binary.BigEndian.PutUint64(head[zxidInReply:], 0)
}

// reply inspects a reply before go-zookeeper sees it. forClient is false for the answers to the
// packetConn's own requests, which go-zookeeper must not see.
func (p *packetConn) reply(b []byte) (forClient bool, err error) {
	xid, zxid, code, body := int32At(b, 4), int64At(b, zxidInReply), int32At(b, codeInReply), b[lengthSize+replyHeader:]
	if xid == xidEvent {
		return true, p.event(body)
	}
	own := xid <= ownXids
	if xid >= 0 || own {
		p.takeZxid(b)
	}
	c := p.conn
	c.mu.Lock()
	op := p.sent[xid].op
	c.mu.Unlock()
	reply, refusal := Reply{Failed: -1}, codeError(code)
	switch {
	case code != 0:
	case own:
		reply, refusal, err = decode(op, body)
	default:
		err = checkBody(op, body)
	}
	if err != nil {
		return false, err
	}
	reply.Zxid = zxid
	p.take(xid, code, reply, refusal)
	if code == codeDemandsSASL {
		c.mu.Lock()
		c.note(c.at(p.address, refusal))
		c.mu.Unlock()
	}
	switch {
	case own:
		return false, nil
	case code == codeDemandsSASL:
		copy(b[codeInReply:], encode(nil, codeAuthFailed)) // go-zookeeper has no name for the code
	case op == opSetAuth && code != 0 && c.returned.Load():
		// When go-zookeeper reads the refusal, it closes the connection and connects again at once.
		// If it has watches, each such connection also leaves a goroutine of go-zookeeper behind,
		// until a server accepts the credentials.
		c.mu.Lock()
		c.note(c.at(p.address, fmt.Errorf("the server refuses credentials that were accepted before: %w", zk.ErrAuthFailed)))
		c.mu.Unlock()
		sleep(c.quit, refusalPause)
	case op == opSetWatches && code != 0:
		// go-zookeeper would only log the refusal, and its watches would never fire. On the next
		// connection it sets them again.
		return false, fmt.Errorf("refused to set watches again (code %d)", code)
	}
	return true, nil
}

// take records the answer to a request, and passes it to a caller of the packetConn.
func (p *packetConn) take(xid, code int32, reply Reply, refusal error) {
	c := p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := p.sent[xid]
	if !ok {
		return
	}
	if len(r.later) > 0 { // the server answers pings in order
		p.sent[xid] = packet{op: r.op, at: r.later[0], later: r.later[1:]}
	} else {
		delete(p.sent, xid)
		p.drain()
	}
	if r.heartbeat {
		c.beaten(r.at)
	}
	if touches(r.op, code) {
		c.answered(r.at, proves(r.op, code))
	}
	if r.op != opPing {
		c.Dropped.Store(code == codeThrottled)
	}
	if r.op == opClose && code == 0 {
		c.closeConfirmed.Store(true)
	}
	if r.answered != nil {
		// This must be the last step: the caller may check the deadline at once, and the answer has
		// moved it.
		r.answered(reply, refusal)
	}
}

// event fires the packetConn's own watches, before go-zookeeper sees the event. The creation of a
// release marker fires only the watch with that marker. The other watches on the node fire by its
// deletion, whose event comes next.
func (p *packetConn) event(body []byte) error {
	d := decoder{rest: body}
	kind, _, path := d.int32(), d.int32(), d.text() // the second is the state of the session
	if d.bad {
		return fmt.Errorf("%w: event of %d bytes", errFrame, len(body))
	}
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	e := &zk.Event{Type: zk.EventType(kind), State: zk.StateConnected, Path: path}
	for _, watch := range slices.Clone(p.watches[e.Path]) {
		if !watch.firedBy(e) {
			continue
		}
		p.watches.remove(watch)
		watch.fire(e)
		switch {
		case !watch.isSet && e.Type == zk.EventNodeDeleted && watch.kind == onNode:
			watch.err = zk.ErrNoNode
		case watch.isSet && watch.marker != "" && watch.marker != e.Path: // if it is not set, setWatches does it
			p.unwatch(watch.marker)
		}
	}
	return nil
}

// early reports whether go-zookeeper may still have to send its credentials on this connection.
// They must be the first packets, because some servers refuse all other requests without them.
// Caller holds conn.mu.
func (p *packetConn) early() bool { return p.conn.credentials && !p.pastAuth }

// enqueue has a goroutine send a request, so a caller never waits until the network takes it. If it
// is early, go-zookeeper first sends its credentials and a request, and note starts the goroutine.
// Caller holds conn.mu.
func (p *packetConn) enqueue(r outgoing) {
	p.queue = append(p.queue, r)
	switch {
	case p.waits, p.leaving:
	case p.early():
		p.waits = true
		go p.conn.ping()
	default:
		p.startSending()
	}
}

// startSending starts the goroutine that sends the queue, unless it runs. Caller holds conn.mu.
func (p *packetConn) startSending() {
	if !p.sends {
		p.sends = true
		go p.sendQueue()
	}
}

// sendQueue sends the requests in the queue, and returns when it is empty.
func (p *packetConn) sendQueue() {
	for {
		p.conn.mu.Lock()
		all := p.queue
		if p.leaving {
			all = nil
		} else {
			p.queue = nil
		}
		p.sends = len(all) > 0
		p.conn.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for _, r := range all {
			p.send(r, false)
		}
	}
}

// send sends a request between go-zookeeper's packets, if there is a session and the request is
// ready.
func (p *packetConn) send(r outgoing, heartbeat bool) {
	p.sending.Lock()
	defer p.sending.Unlock()
	c := p.conn
	c.mu.Lock()
	if p.leaving && p.phase == running && !heartbeat {
		p.queue = append(p.queue, r)
		c.mu.Unlock()
		return
	}
	sends := p.phase == running && !c.IsClosed() && (r.ready == nil || r.ready())
	xid := c.nextXid()
	if sends {
		p.pastAuth = true
		p.sent[xid] = packet{op: r.op, at: time.Now(), heartbeat: heartbeat, answered: r.answered}
	} else if r.answered != nil {
		r.answered(Reply{}, ErrUnsent)
	}
	c.mu.Unlock()
	if !sends {
		return
	}
	if _, err := p.Conn.Write(append(encode(nil, int32(8+len(r.body)), xid, r.op), r.body...)); err != nil {
		p.fail(err)
	}
}

// nextXid returns the xid of the next request of a packetConn's own. Caller holds mu.
func (c *Conn) nextXid() int32 {
	if c.xid == math.MinInt32 { // positive xids are go-zookeeper's
		c.xid = ownXids
	}
	c.xid--
	return c.xid
}

// leave ends the packetConn's own requests, but for heartbeats. The returned channel is closed when
// no request waits for its answer. go-zookeeper may still send; caller holds conn.mu.
func (p *packetConn) leave() (drained <-chan struct{}) {
	p.leaving, p.drained = true, make(chan struct{})
	drained = p.drained
	p.drain()
	return drained
}

// drain closes drained if all requests but pings and heartbeats are answered; caller holds conn.mu.
func (p *packetConn) drain() {
	if p.drained == nil {
		return
	}
	for _, r := range p.sent {
		if r.op != opPing && !r.heartbeat {
			return
		}
	}
	close(p.drained)
	p.drained = nil
}

// unwatch removes the watches on a marker or on another node, unless a waiter watches it again.
// Caller holds conn.mu.
func (p *packetConn) unwatch(path string) {
	p.enqueue(outgoing{
		Request: Request{opRemoveWatches, encode(nil, path, anyWatches)},
		ready:   func() bool { return len(p.watches[path]) == 0 },
		answered: func(_ Reply, err error) {
			if err == Throttled { // other codes say that there was no watch: it has fired meanwhile
				time.AfterFunc(throttlePause, func() {
					p.conn.mu.Lock()
					defer p.conn.mu.Unlock()
					p.unwatch(path)
				})
			}
		},
	})
}

// ping has go-zookeeper send a request that any server answers from memory. Servers from 3.8.4 on
// refuse it to a client without READ on the root, which is an answer, too.
func (c *Conn) ping() error {
	_, _, err := c.client.Exists("/")
	if err == zk.ErrNoAuth {
		return nil
	}
	return err
}

// SetReadDeadline ignores go-zookeeper's deadline during the handshake, which has its own.
func (p *packetConn) SetReadDeadline(t time.Time) error {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.phase < running {
		return nil
	}
	return p.Conn.SetReadDeadline(t)
}

// Close is called by go-zookeeper, several times.
func (p *packetConn) Close() error {
	p.fail(net.ErrClosed)
	return nil
}

// fail ends the connection and its watches, before go-zookeeper's Read returns an error. It returns
// the phase in which the connection was.
func (p *packetConn) fail(err error) (was phase) {
	c := p.conn
	c.mu.Lock()
	was = p.phase
	if p.phase = broken; was < running {
		c.note(err)
	}
	if c.current == p {
		c.disconnect()
	}
	p.watches.end()
	sent, queue := p.sent, p.queue
	p.watches, p.sent, p.queue = nil, nil, nil
	for _, r := range sent {
		if r.answered != nil {
			r.answered(Reply{}, zk.ErrConnectionClosed)
		}
	}
	for _, r := range queue {
		r.answered(Reply{}, ErrUnsent)
	}
	p.drain()
	c.mu.Unlock()
	p.Conn.Close()
	return was
}

// at adds the address to the error of an attempt, unless there is only one server, because the
// error of the call names the servers.
func (c *Conn) at(address string, err error) error {
	if e, ok := err.(*net.OpError); ok {
		err = e.Err // without the addresses
	}
	if slices.Equal(c.Servers(), []string{address}) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}
