package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	readBuffer = 32 << 10
	// throttlePause is the pause before a request that an overloaded server has dropped is sent
	// again.
	throttlePause = 100 * time.Millisecond
)

// A packetConn is one network connection. It sends requests, and takes the answers and events. See
// run.go for its life.
//
// The requests of the locks and those of the guest share one queue, and are sent in the order in
// which they were enqueued. The server executes them in that order. When the session moves, the
// guest's requests that were not sent are sent on the next connection, while the locks' return
// ErrUnsent, and their callers send them again. So only requests that wait for each other have an
// order: a request that begins when another is answered is executed after that.
type packetConn struct {
	net.Conn
	conn    *Conn
	server  string        // as given to Connect or SetServers
	address string        // as dialed
	limit   time.Duration // for each answer until the connection runs
	sasl    SASLExchange  // nil: none

	// Only the reading goroutine uses in and buf.
	in  *bufio.Reader
	buf []byte // the current frame, with its length in front

	sending chan struct{} // has a value while a packet is written, so that packets do not mix

	// conn.mu guards what follows.
	phase   phase
	sent    map[int32]outgoing // by xid: the requests that are not answered yet
	queue   []outgoing         // the requests that are not sent yet
	leaving bool               // the session moves: the queue waits
	drained chan struct{}      // closed when it leaves and all requests are answered; nil: it was closed, or does not leave
	watches watches
}

type phase int

const (
	shaking phase = iota // until a server has granted the session and accepted the credentials
	running
	broken // the connection has failed or was closed
)

// An outgoing is a request. The caller of its functions holds conn.mu.
type outgoing struct {
	Request
	heartbeat bool
	at        time.Time   // right before it was written; zero: it was not
	ready     func() bool // reports whether the request is still to be sent, right before it is; nil: it is
	// answered is called once. If there is no reply, the error is ErrUnsent or
	// zk.ErrConnectionClosed. It is nil for a request that nobody waits for.
	answered func(Reply, error)
	// forward is set for a request of the guest, in place of answered. It is called once, with the
	// frame of the reply, which it may refuse; nil: there is none.
	forward func(frame []byte) error
	session int64 // of a request of the guest
}

// lost ends a request that has no reply.
func (r *outgoing) lost(err error) {
	switch {
	case r.forward != nil:
		_ = r.forward(nil)
	case r.answered != nil:
		r.answered(Reply{}, err)
	}
}

// A guest uses the connection, too: see client. The caller of receive and lost holds Conn.mu.
type guest interface {
	receive(p *packetConn, event []byte) // passes on the frame of an event
	lost(*packetConn)                    // the connection has ended, and no request waits for it
	end()                                // the Conn is closed
}

func newPacketConn(c *Conn, conn net.Conn, server, address string, limit time.Duration, sasl SASLExchange) *packetConn {
	return &packetConn{
		Conn: conn, conn: c, server: server, address: address, limit: limit, sasl: sasl,
		in:      bufio.NewReaderSize(conn, readBuffer),
		sending: make(chan struct{}, 1),
		sent:    make(map[int32]outgoing),
	}
}

// nextXid returns the xid of the next request. A session never uses an xid twice within days: a
// request that it sent through another server may be committed only now, and this server must not
// take it for a request of this connection. Nor may a server take a request of a dead process for a
// request of the process that ends its session. So the first xid is random. Caller holds mu.
func (c *Conn) nextXid() int32 {
	if c.xid == math.MaxInt32 { // negative xids have a meaning
		c.xid = 0
	}
	c.xid++
	return c.xid
}

// in returns the network connection if it has the given session. Caller holds mu.
func (c *Conn) in(session int64) (*packetConn, error) {
	switch {
	case c.current == nil || c.current.phase != running:
		return nil, ErrUnsent
	case session != AnySession && session != c.Session():
		return nil, ErrOver
	}
	return c.current, nil
}

// running returns the network connection that has the session; nil: none.
func (c *Conn) running() *packetConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _ := c.in(AnySession)
	return p
}

// onward returns the connection on which a request of the guest is sent in a session, if need be
// after a move; nil: none. Caller holds mu.
func (c *Conn) onward(session int64) *packetConn {
	if session != c.Session() {
		return nil
	}
	for _, p := range []*packetConn{c.current, c.next} {
		if p != nil && p.phase != broken {
			return p
		}
	}
	return nil
}

// enqueue has a goroutine send a request, so a caller never waits until the network takes it.
// Caller holds conn.mu.
func (p *packetConn) enqueue(r outgoing) {
	if p.queue = append(p.queue, r); len(p.queue) == 1 { // otherwise sendQueue runs already
		p.startSending()
	}
}

// startSending starts the goroutine that sends the queue. Caller holds conn.mu.
func (p *packetConn) startSending() {
	if p.phase == running && !p.leaving {
		go p.sendQueue()
	}
}

// sendQueue sends the requests in the queue, until it is empty or the session moves. It takes each
// request right before it writes it, so a second sendQueue does no harm.
func (p *packetConn) sendQueue() {
	for more := true; more; {
		p.write(func() []byte {
			if more = len(p.queue) > 0 && !p.leaving; !more {
				return nil
			}
			r := p.queue[0]
			p.queue[0] = outgoing{} // the array outlives the request
			if p.queue = p.queue[1:]; len(p.queue) == 0 {
				p.queue = nil
			}
			return p.note(r)
		})
	}
}

// send sends a request ahead of the queue.
func (p *packetConn) send(r outgoing) { p.write(func() []byte { return p.note(r) }) }

// write writes the packet that next returns with conn.mu locked; nil: there is none.
func (p *packetConn) write(next func() []byte) {
	p.sending <- struct{}{}
	defer func() { <-p.sending }()
	p.conn.mu.Lock()
	packet := next()
	p.conn.mu.Unlock()
	if packet != nil {
		if _, err := p.Conn.Write(packet); err != nil {
			p.fail()
		}
	}
}

// note records a request before it is sent, so that the time is never later than the server's. It
// returns the packet; nil: there is no session, or the request is not ready. Caller holds conn.mu.
func (p *packetConn) note(r outgoing) []byte {
	c := p.conn
	xid := int32(xidPing)
	if r.op != opPing {
		xid = c.nextXid()
	}
	_, pinged := p.sent[xid]
	switch {
	case p.phase != running || c.IsClosed() && r.op != opClose || r.ready != nil && !r.ready():
		p.unsent(r)
		return nil
	case pinged: // the server has not answered the last ping
		return nil
	}
	r.at = time.Now()
	p.sent[xid] = r
	return append(encode(nil, int32(8+len(r.body)), xid, r.op), r.body...)
}

// unsent ends a request that was not sent. If the session moves, a request of the guest is sent on
// the next connection.
func (p *packetConn) unsent(r outgoing) {
	if r.forward != nil {
		if next := p.conn.onward(r.session); next != nil && next != p {
			next.enqueue(r)
			return
		}
	}
	r.lost(ErrUnsent)
}

// leave holds the queue back. The returned channel is closed when no request waits for its answer;
// caller holds conn.mu.
func (p *packetConn) leave() (drained <-chan struct{}) {
	p.leaving, p.drained = true, make(chan struct{})
	drained = p.drained
	p.drain()
	return drained
}

// drain closes drained if all requests are answered; caller holds conn.mu.
func (p *packetConn) drain() {
	if p.drained != nil && len(p.sent) == 0 {
		close(p.drained)
		p.drained = nil
	}
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

// unanswered returns the error of an attempt for the error of a read: that the server was silent,
// that it has closed the connection, or that its frame is malformed.
func (p *packetConn) unanswered(err error, silent, closed string) error {
	switch {
	case errors.Is(err, errFrame):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silence(fmt.Sprintf("%s within %v", silent, p.limit))
	}
	return errors.New(closed)
}

// A silence is the error of an attempt that a server has not answered in time.
type silence string

func (s silence) Error() string        { return string(s) }
func (s silence) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// reply takes a frame from the server.
func (p *packetConn) reply(b []byte) (err error) {
	xid, zxid, code, body := int32At(b, 4), int64At(b, zxidInReply), int32At(b, codeInReply), b[lengthSize+replyHeader:]
	if xid == xidEvent {
		return p.event(b)
	}
	c := p.conn
	c.mu.Lock()
	r, ok := p.sent[xid]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	reply, refusal := Reply{Failed: -1}, codeError(code)
	if r.forward == nil && code == 0 {
		reply, refusal, err = decode(r.op, body)
	}
	if err != nil {
		return err
	}
	reply.Zxid = zxid
	return p.take(xid, code, reply, refusal, b)
}

// take records the answer to a request, and passes it on.
func (p *packetConn) take(xid, code int32, reply Reply, refusal error, frame []byte) error {
	c := p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := p.sent[xid]
	if !ok {
		return nil
	}
	delete(p.sent, xid)
	p.drain()
	if reply.Zxid > 0 && r.op != opPing {
		c.zxid.Store(reply.Zxid)
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
	if code == codeDemandsSASL {
		c.note(c.at(p.address, refusal))
	}
	// This must be the last step: the caller may check the deadline at once, and the answer has
	// moved it.
	switch {
	case r.forward != nil:
		return r.forward(frame)
	case r.answered != nil:
		r.answered(reply, refusal)
	}
	return nil
}

// event fires the watches, and passes the event on to the guest. The creation of a release marker
// fires only the watch with that marker. The other watches on the node fire by its deletion, whose
// event comes next.
func (p *packetConn) event(frame []byte) error {
	d := decoder{rest: frame[lengthSize+replyHeader:]}
	kind, _, path := d.int32(), d.int32(), d.text() // the second is the state of the session
	if d.bad {
		return fmt.Errorf("%w: event of %d bytes", errFrame, len(frame))
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
	if p.conn.guest != nil {
		p.conn.guest.receive(p, frame)
	}
	return nil
}
