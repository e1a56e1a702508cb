package wire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A client is the zk.Conn that Conn.Client returns, for the program's own requests in the Conn's
// session. go-zookeeper believes that it talks to a server: its dialer returns a pipe, whose Write
// passes each packet on and whose Read returns the answers. A pipe ends with its network
// connection. go-zookeeper then asks for another, and sets its watches again.
//
// This file works around all defects of go-zookeeper:
//   - After the end of a connection it may take another request from its queue, and fail it. So a
//     Write on a pipe that ends returns only when go-zookeeper has read the end, and then with an
//     error.
//   - A failed Write makes it answer a request twice, and an answer to credentials that it sends again
//     twice stops it forever. So a Write of credentials never fails.
//   - It reads its last zxid to set watches again while another goroutine writes it. So each reply
//     states zxid 0, and the pipe writes the zxid into the request that sets watches.
//   - It only logs that this request was refused. So the pipe ends, and it tries again.
//   - It does not notice Close while it dials. So a closed Conn has a pipe for it, too, on which its
//     last request is answered.
//   - Its decoder panics on some bodies, see checkBody.
type client struct {
	conn *Conn
	zk   *zk.Conn
	up   chan struct{} // receives a value when go-zookeeper has a session
	over chan struct{} // closed when go-zookeeper has ended

	// conn.mu guards what follows.
	pipe    *pipe // the last; nil: none
	watched bool  // go-zookeeper may have watches
	since   int64 // they miss no change up to this zxid
	closing bool  // the program closes the client
}

// A pipe is a network connection to go-zookeeper, which writes one packet per Write, and never from
// two goroutines at once.
type pipe struct {
	net.Conn // nil: go-zookeeper calls the methods below alone
	client   *client
	on       *packetConn   // nil: the Conn was closed when the pipe was made
	wake     chan struct{} // receives a value when there is more to read
	ended    chan struct{} // closed when no more follows
	read     chan struct{} // closed when go-zookeeper has read the end

	once sync.Once // closes read

	// conn.mu guards what follows.
	said    []byte // not read yet
	shaken  bool   // the handshake is answered
	session int64  // of the handshake
	pending int    // requests that are not answered
	lost    bool   // the network connection has ended, or the pipe has
	waits   bool   // a Write waits for the end
	quiet   bool   // since leave
	set     bool   // each watch of go-zookeeper is set on this connection
}

// Client returns a zk.Conn in the Conn's session, which the first call makes. If the Conn is not
// connected then, the client has no session id until it is.
func (c *Conn) Client() *zk.Conn {
	c.making <- struct{}{}
	defer func() { <-c.making }()
	if x, ok := c.guest.(*client); ok {
		return x.zk
	}
	x := &client{conn: c, up: make(chan struct{}, 1), over: make(chan struct{})}
	changed, up := c.Changed(), c.Up() != 0
	c.mu.Lock()
	c.guest = x // before go-zookeeper dials: its first pipe must not miss a loss
	c.mu.Unlock()
	conn, events, err := zk.Connect(c.Servers(), c.timeout,
		zk.WithDialer(x.dial), zk.WithHostProvider(x), zk.WithLogger(x), zk.WithEventCallback(x.event))
	if err != nil {
		panic(err) // it fails only without servers
	}
	x.zk = conn
	go func() {
		for range events { // the channel is closed when go-zookeeper ends
		}
		close(x.over)
		_ = c.Close() // the program has closed the client
	}()
	switch {
	case c.IsClosed():
		x.end()
	case up:
		select {
		case <-x.up:
		case <-changed:
		}
	}
	return conn
}

// event is go-zookeeper's zk.EventCallback.
func (x *client) event(e zk.Event) {
	if e.State == zk.StateHasSession {
		ring(x.up)
	}
}

// end closes go-zookeeper when the Conn is closed. First it waits until go-zookeeper has a pipe, on
// which the last request is answered: between two pipes Close of a zk.Conn takes a second.
func (x *client) end() {
	for {
		x.conn.mu.Lock()
		q, closing := x.pipe, x.closing
		answers := q != nil && q.shaken && !q.lost
		if q != nil && q.lost {
			q.end() // go-zookeeper then asks for another
		}
		x.conn.mu.Unlock()
		if answers && !closing {
			x.zk.Close()
		}
		if answers || closing {
			return
		}
		select {
		case <-x.up:
		case <-x.over:
			return
		}
	}
}

// dial is go-zookeeper's zk.Dialer. It waits until the Conn is connected, or closed.
func (x *client) dial(_, server string, _ time.Duration) (net.Conn, error) {
	c := x.conn
	for {
		c.mu.Lock()
		p, err := c.in(AnySession)
		changed, closed := c.changed, c.IsClosed()
		if err == nil && p.server != server && !closed {
			c.mu.Unlock()
			return nil, net.ErrClosed // go-zookeeper asks Next again
		}
		if err == nil || closed {
			q := &pipe{client: x, on: p, wake: make(chan struct{}, 1), ended: make(chan struct{}), read: make(chan struct{})}
			x.pipe = q
			c.mu.Unlock()
			return q, nil
		}
		c.mu.Unlock()
		<-changed
	}
}

func (x *client) receive(p *packetConn, event []byte) {
	if x.pipe != nil && x.pipe.on == p && x.pipe.shaken {
		x.pipe.say(event)
	}
}

// lost ends the pipe. go-zookeeper still reads all that it was sent. At a move the requests that were
// not sent are answered first.
func (x *client) lost(p *packetConn) {
	q := x.pipe
	if q == nil || q.on != p || x.conn.IsClosed() {
		return
	}
	if q.set {
		x.since = x.conn.zxid.Load()
	}
	if x.conn.next == nil {
		q.end()
	} else {
		q.leave()
	}
}

// leave ends the pipe when go-zookeeper is not about to write: when its next Write waits, or when
// nothing was written or pending for a while.
func (q *pipe) leave() {
	q.lost, q.quiet = true, true
	q.later(func() {
		if q.quiet && q.pending == 0 {
			q.end()
		} else {
			q.leave()
		}
	})
}

// later calls f after a pause, unless the pipe has ended.
func (q *pipe) later(f func()) {
	time.AfterFunc(throttlePause, func() {
		q.client.conn.mu.Lock()
		defer q.client.conn.mu.Unlock()
		if !q.isOver() {
			f()
		}
	})
}

func (q *pipe) end() {
	if q.lost = true; !q.isOver() {
		close(q.ended)
	}
}

func (q *pipe) isOver() bool {
	select {
	case <-q.ended:
		return true
	default:
		return false
	}
}

// say has go-zookeeper read a frame.
func (q *pipe) say(frame []byte) {
	if q.isOver() {
		return
	}
	q.said = append(q.said, frame...)
	ring(q.wake)
}

// answer answers a request with a code.
func (q *pipe) answer(xid, code int32) {
	q.say(encode(nil, int32(replyHeader), xid, int64(0), code))
}

// Read returns what the server has answered.
func (q *pipe) Read(b []byte) (int, error) {
	for {
		over := q.isOver() // read before said, to which nothing is added after the end
		q.client.conn.mu.Lock()
		n := copy(b, q.said)
		q.said = q.said[n:]
		q.client.conn.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case over:
			q.once.Do(func() { close(q.read) })
			return 0, io.EOF
		}
		select {
		case <-q.wake:
		case <-q.ended:
		}
	}
}

// Write takes a packet of go-zookeeper. What go-zookeeper has not written when the pipe is about to
// end, it sends on the next pipe.
func (q *pipe) Write(b []byte) (int, error) {
	if q.write(b) {
		<-q.read
		return 0, zk.ErrConnectionClosed
	}
	return len(b), nil
}

// write reports whether Write must fail when the pipe has ended.
func (q *pipe) write(b []byte) (fails bool) {
	x, c := q.client, q.client.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !q.shaken {
		q.shake(int64At(b, sessionInRequest))
		return false
	}
	xid, op, body := int32At(b, lengthSize), int32At(b, lengthSize+4), bytes.Clone(b[lengthSize+8:])
	switch {
	case q.isOver(), op == opPing: // go-zookeeper answers all its requests when it reads the end
	case op == opClose && !c.IsClosed(): // the program closes the client
		x.closing = true
		go func() {
			_ = c.Close()
			c.mu.Lock()
			defer c.mu.Unlock()
			q.answer(xid, 0)
		}()
	case op == opClose:
		q.answer(xid, 0)
	case op == opSetAuth && c.begins(body): // go-zookeeper sends them again
		q.answer(xid, 0)
	default:
		switch op {
		case opSetWatches:
			binary.BigEndian.PutUint64(body, uint64(x.since))
		case opGetData, opExists, opGetChildren2:
			x.watched = x.watched || bytes.HasSuffix(body, []byte{1})
		}
		q.pending++
		r := outgoing{Request: Request{op, body}, session: q.session,
			forward: func(frame []byte) error { return q.forwarded(xid, op, body, frame) }}
		if p := c.onward(q.session); p != nil {
			p.enqueue(r)
		} else {
			r.lost(ErrUnsent)
		}
	}
	if fails = q.lost && op != opSetAuth; fails {
		q.waits = true
		q.endIfIdle()
	}
	return fails
}

func (q *pipe) endIfIdle() {
	if q.waits && q.pending == 0 {
		q.end()
	}
}

// shake answers the handshake. asked is the session that go-zookeeper has. The timeout is long, so
// that it sends no pings.
func (q *pipe) shake(asked int64) {
	x, c := q.client, q.client.conn
	q.session = c.Session()
	var password []byte
	switch own := c.Own(); {
	case c.IsClosed():
		q.session = cmp.Or(asked, 1)
	case asked != 0 && asked != q.session:
		q.session = 0 // it is over
		x.watched, x.since = false, 0
	default:
		password = own.Password
	}
	q.set = !x.watched
	q.say(encode(nil, int32(minHandshake+len(password)), int32(0), int32(math.MaxInt32), q.session, string(password)))
	if q.shaken = true; q.session == 0 {
		q.end()
	}
}

// forwarded passes a reply on; nil: there is none. It refuses a reply that go-zookeeper cannot handle.
func (q *pipe) forwarded(xid, op int32, body, frame []byte) error {
	c := q.client.conn
	q.pending--
	q.quiet = false
	defer q.endIfIdle()
	if frame == nil {
		return nil
	}
	code, err := int32At(frame, codeInReply), checkBody(op, frame[lengthSize+replyHeader:])
	switch {
	case code == 0 && err != nil:
		return err
	case op == opSetAuth && code == 0:
		c.credentials = append(slices.Clip(c.credentials), body)
	case op == opSetWatches && code != 0:
		q.later(q.leave)
		return nil
	case op == opSetWatches: // go-zookeeper fills a request before it sends the next
		q.set = len(body) < mostWatches/2
	case code == codeDemandsSASL:
		code = codeAuthFailed // go-zookeeper has no name for the code
	}
	copy(frame[lengthSize:], encode(nil, xid, int64(0), code))
	q.say(frame)
	return nil
}

// begins reports whether each connection begins with these credentials; caller holds mu.
func (c *Conn) begins(credentials []byte) bool {
	return slices.ContainsFunc(c.credentials, func(b []byte) bool { return bytes.Equal(b, credentials) })
}

// checkBody refuses what makes go-zookeeper's decoder panic, in a goroutine where no caller can
// recover: a length or a count for which it allocates memory before it checks whether the bytes are
// there, and a Multi result without an end. It also refuses a body without the length: go-zookeeper
// would read it from the bytes of an earlier reply, which its buffer still has.
func checkBody(op int32, body []byte) error {
	d := &decoder{rest: body}
	switch op {
	case opGetData, opReconfig:
		d.bytes()
	case opGetChildren2:
		d.count(4) // the length of a name
	case opGetACL:
		d.count(12) // rights, and the lengths of scheme and id
	case opMulti:
		d.results()
	}
	return d.err(op, body)
}

// Close is called by go-zookeeper, several times.
func (q *pipe) Close() error {
	q.client.conn.mu.Lock()
	defer q.client.conn.mu.Unlock()
	q.end()
	return nil
}

func (q *pipe) SetReadDeadline(time.Time) error  { return nil }
func (q *pipe) SetWriteDeadline(time.Time) error { return nil }

// The client is go-zookeeper's zk.HostProvider, which provides the name of the present server.
func (x *client) Init([]string) error  { return nil }
func (x *client) Len() int             { return 1 }
func (x *client) Connected()           {}
func (x *client) Next() (string, bool) { return x.conn.Server(), false }

// Printf is go-zookeeper's zk.Logger. The Conn logs what happens.
func (x *client) Printf(string, ...any) {}
