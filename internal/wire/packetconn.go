package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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

// A packetConn is one network connection as the client sees it. It inspects each packet that
// passes. The client writes one packet per Write, and never from two goroutines at once. Between
// these packets the packetConn sends its own requests: heartbeats, SetWatches and RemoveWatches.
type packetConn struct {
	net.Conn
	client  *Conn
	address string        // as dialed
	limit   time.Duration // for the handshake

	// Only the reading goroutine uses in, buf and left.
	in   *bufio.Reader
	buf  []byte // the current frame, with its length in front
	left []byte // the rest of buf, which the client has not read yet

	sending sync.Mutex // held while a packet is written; lock order: sending, client.mu

	// client.mu guards what follows.
	phase    phase
	pastAuth bool             // the client has sent a request other than credentials
	asked    time.Time        // when the handshake was sent
	sent     map[int32]packet // by xid: the requests that are not answered yet
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
	op         int32
	at         time.Time     // before it was written
	later      []time.Time   // of the pings after it, which have the same xid
	createZxid *atomic.Int64 // receives the zxid of the reply; nil: no caller wants it
	// answered is nil for the client's requests. For a request of the packetConn it is called once,
	// with the code of the answer or with codeConnectionLoss. Its caller holds client.mu.
	answered func(code int32)
}

func newPacketConn(c *Conn, conn net.Conn, address string, limit time.Duration) *packetConn {
	return &packetConn{
		Conn: conn, client: c, address: address, limit: limit,
		in:   bufio.NewReaderSize(conn, readBuffer),
		sent: make(map[int32]packet),
	}
}

// Write sends one packet. Once there is a session, Write returns no error. If the connection is
// lost, the client's next Read fails.
//
// If a Write failed, the client would answer the request twice: at once, and with all other lost
// requests. The channel of a request that sends credentials again has room for one answer, so the
// client's main goroutine would block forever. Callers would also receive the network's error
// instead of zk.ErrConnectionClosed.
func (w *packetConn) Write(p []byte) (int, error) {
	if _, op := request(p); op == opClose {
		w.client.markClosed() // notifies the holders before the server ends the session
	}
	w.sending.Lock()
	defer w.sending.Unlock()
	n, err := w.Conn.Write(w.note(p))
	if err == nil {
		return n, nil
	}
	if w.fail(err) < running {
		return n, err
	}
	return len(p), nil
}

// note records a packet of the client before it is sent, so that the time is never later than the
// server's. It returns the bytes to send.
func (w *packetConn) note(p []byte) (send []byte) {
	c, now := w.client, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch w.phase {
	case fresh:
		w.phase = handshake
		w.asked = now
		p = bytes.Clone(p) // the client's
		if int64At(p, sessionInRequest) == 0 {
			// The client asks for the timeout of the last session. So the limits of one server
			// would bind all later sessions.
			binary.BigEndian.PutUint32(p[timeoutInRequest:], uint32(c.timeout.Milliseconds()))
		} else {
			// A server that has not applied what the client has read must refuse the session.
			binary.BigEndian.PutUint64(p[zxidInRequest:], uint64(c.zxid.Load()))
		}
		// The client's own deadline is 6.7 session timeouts, and its second read has no deadline.
		w.Conn.SetDeadline(now.Add(w.limit))
	case running:
		xid, op := request(p)
		if !w.pastAuth && op != opSetAuth {
			w.pastAuth = true
			c.beatAt(now)
		}
		r, again := w.sent[xid]
		if again { // all pings have one xid
			r.later = append(r.later, now)
		} else {
			r = packet{op: op, at: now, createZxid: c.tracked(created(op, p))}
		}
		w.sent[xid] = r
		p = w.watches.flag(op, p)
	}
	return p
}

// Read returns the server's frames to the client, each after it has been inspected.
func (w *packetConn) Read(p []byte) (int, error) {
	if len(w.left) == 0 {
		w.client.mu.Lock()
		next := w.nextFrame
		if w.phase == handshake {
			next = w.readHandshake
		}
		w.client.mu.Unlock()
		if err := next(); err != nil {
			err = w.client.at(w.address, err)
			w.fail(err)
			return 0, err
		}
		w.left = w.buf
	}
	n := copy(p, w.left)
	w.left = w.left[n:]
	return n, nil
}

// nextFrame reads the next frame for the client, after the handshake.
func (w *packetConn) nextFrame() error {
	for {
		err := w.readFrame(replyHeader, maxReply)
		forClient := false
		if err == nil {
			forClient, err = w.reply(w.buf)
		}
		if err != nil || forClient {
			return err
		}
	}
}

// readFrame reads a frame into buf. The frame must have at least "least" and at most "most" bytes.
func (w *packetConn) readFrame(least, most int) error {
	if cap(w.buf) > readBuffer {
		w.buf = nil // a large reply is rare
	}
	w.buf = append(w.buf[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(w.in, w.buf); err != nil {
		return err
	}
	n := int(int32At(w.buf, 0))
	if n < least || n > most {
		return fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	w.buf = slices.Grow(w.buf, n)[:lengthSize+n]
	_, err := io.ReadFull(w.in, w.buf[lengthSize:])
	return err
}

// readHandshake reads the answer to the handshake.
func (w *packetConn) readHandshake() error {
	err := w.readFrame(minHandshake, maxHandshake)
	switch {
	case string(w.buf[:lengthSize]) == "HTTP":
		return errors.New("the server speaks HTTP: this is not ZooKeeper's client port")
	case errors.Is(err, errFrame):
		return err
	case w.client.IsClosed():
		return net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.client.hosts.hung()
		return fmt.Errorf("accepted the connection, but did not answer the handshake within %v", w.limit)
	case err != nil:
		return errors.New("closed the connection during the handshake " +
			"(not part of a quorum? TLS expected? maxClientCnxns reached? data older than the client has seen?)")
	}
	session, granted, err := connectReply(w.buf)
	if err != nil {
		return err
	}
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.phase != handshake {
		return net.ErrClosed
	}
	w.Conn.SetDeadline(time.Time{})
	c.hosts.answered()
	if session == 0 {
		w.phase = broken
		c.zxid.Store(0)
		c.expire()
		return nil
	}
	w.phase = running
	c.begin(session, granted, w.asked)
	c.beatAt(time.Now())
	c.hosts.timeout = c.Timeout()
	if shortest := c.hosts.timeout; 0 < shortest && shortest < granted {
		// By this timeout the client sends its pings, and leaves a server that does not answer.
		binary.BigEndian.PutUint32(w.buf[timeoutInHandshake:], uint32(shortest.Milliseconds()))
	}
	return nil
}

// takeZxid records the zxid of the reply to a request, and replaces it with 0.
//
// The client has a data race here. After a reconnect one goroutine reads the last zxid to set the
// client's watches again, while another goroutine stores the zxid of a reply. If the first reads a
// zxid that is too new, the watches miss events. Now it always reads 0, so the server fires all of
// the client's watches after a reconnect. The handshake states the real zxid, see note.
func (w *packetConn) takeZxid(head []byte) {
	if zxid := int64At(head, zxidInReply); zxid > 0 {
		w.client.zxid.Store(zxid)
	}
	binary.BigEndian.PutUint64(head[zxidInReply:], 0)
}

// reply inspects a reply before the client sees it. forClient is false for the answers to the
// packetConn's own requests, which the client must not see.
func (w *packetConn) reply(p []byte) (forClient bool, err error) {
	xid, zxid, code, body := int32At(p, 4), int64At(p, zxidInReply), int32At(p, 16), p[lengthSize+replyHeader:]
	if xid == xidEvent {
		return true, w.event(body)
	}
	if xid >= 0 {
		w.takeZxid(p)
	}
	c := w.client
	c.mu.Lock()
	r, ok := w.sent[xid]
	if code == 0 {
		err = checkBody(r.op, body)
	}
	if err == nil {
		if len(r.later) > 0 { // the server answers pings in order
			w.sent[xid] = packet{op: r.op, at: r.later[0], later: r.later[1:]}
		} else {
			delete(w.sent, xid)
		}
		if r.answered != nil {
			r.answered(code)
		}
		if ok && touches(r.op, code) {
			c.answered(r.at, proves(r.op, code))
		}
	}
	c.mu.Unlock()
	if err != nil {
		return false, err
	}
	if ok && r.op != opPing {
		c.Dropped.Store(code == codeThrottled)
	}
	if r.op == opClose && code == 0 {
		c.closeConfirmed.Store(true)
	}
	if r.createZxid != nil && code == 0 {
		r.createZxid.Store(zxid)
	}
	switch {
	case xid <= ownXids:
		return false, nil
	case r.op == opSetAuth && code != 0 && c.returned.Load():
		// When the client reads the refusal, it closes the connection and connects again at once.
		// If it has watches, each such connection also leaves a goroutine of the client behind,
		// until a server accepts the credentials.
		c.mu.Lock()
		c.note(c.at(w.address, fmt.Errorf("the server refuses credentials that were accepted before: %w", zk.ErrAuthFailed)))
		c.mu.Unlock()
		sleep(c.quit, refusalPause)
	case r.op == opSetWatches && code != 0:
		// The client would only log the refusal, and its watches would never fire. On the next
		// connection it sets them again.
		return false, fmt.Errorf("refused to set watches again (code %d)", code)
	}
	return true, nil
}

// event fires the packetConn's own watches, before the client sees the event. The creation of a
// release marker fires only the watch with that marker. The other watches on the node fire by its
// deletion, whose event comes next.
func (w *packetConn) event(body []byte) error {
	path, _, ok := stringAt(body, 8) // behind the event's type and the state of the session
	if !ok {
		return fmt.Errorf("%w: event of %d bytes", errFrame, len(body))
	}
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	e := &zk.Event{Type: zk.EventType(int32At(body, 0)), State: zk.StateConnected, Path: string(path)}
	for _, watch := range slices.Clone(w.watches[e.Path]) {
		if !watch.firedBy(e) {
			continue
		}
		w.watches.remove(watch)
		watch.fire(e)
		switch {
		case !watch.isSet && e.Type == zk.EventNodeDeleted && watch.kind == onNode:
			watch.err = zk.ErrNoNode
		case watch.isSet && watch.mark != "" && watch.mark != e.Path: // if it is not set, setWatches does it
			go w.unwatch(watch.mark) // the reading goroutine must not wait until it can write
		}
	}
	return nil
}

// send sends a request of the packetConn between the client's requests, if there is a session and
// ready returns true. ready may be nil; its caller holds client.mu. For answered see packet.
func (w *packetConn) send(op int32, body []byte, ready func() bool, answered func(code int32)) {
	w.sending.Lock()
	defer w.sending.Unlock()
	c := w.client
	c.mu.Lock()
	sends := w.phase == running && !c.IsClosed() && (ready == nil || ready())
	c.xid--
	xid := c.xid
	if sends {
		w.sent[xid] = packet{op: op, at: time.Now(), answered: answered}
	} else {
		answered(codeConnectionLoss)
	}
	c.mu.Unlock()
	if !sends {
		return
	}
	if _, err := w.Conn.Write(append(encode(nil, int32(8+len(body)), xid, op), body...)); err != nil {
		w.fail(err)
	}
}

// anyWatches is the type of all watches on a node.
const anyWatches int32 = 3

// unwatch removes the watches on a marker or on another node, unless a waiter watches it again.
func (w *packetConn) unwatch(path string) {
	unwatched := func() bool { return len(w.watches[path]) == 0 }
	w.send(opRemoveWatches, encode(nil, path, anyWatches), unwatched, func(code int32) {
		if code == codeThrottled { // other codes say that there was no watch: it has fired meanwhile
			time.AfterFunc(throttlePause, func() { w.unwatch(path) })
		}
	})
}

// ping has the client send a request that any server answers from memory. Servers from 3.8.4 on
// refuse it to a client without READ on the root, which is an answer, too.
func (c *Conn) ping() error {
	_, _, err := c.Exists("/")
	if err == zk.ErrNoAuth {
		return nil
	}
	return err
}

// SetReadDeadline ignores the client's deadline during the handshake, which has its own.
func (w *packetConn) SetReadDeadline(t time.Time) error {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	if w.phase < running {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

// Close is called by the client, several times.
func (w *packetConn) Close() error {
	w.fail(net.ErrClosed)
	return nil
}

// fail ends the connection and its watches, before the client's Read returns an error. It returns
// the phase in which the connection was.
func (w *packetConn) fail(err error) (was phase) {
	c := w.client
	c.mu.Lock()
	was = w.phase
	if w.phase = broken; was < running {
		c.note(err)
	}
	if c.current == w {
		c.disconnect()
	}
	w.watches.end()
	for _, p := range w.sent {
		if p.answered != nil {
			p.answered(codeConnectionLoss)
		}
	}
	w.watches, w.sent = nil, nil
	c.mu.Unlock()
	w.Conn.Close()
	return was
}

// at adds the address to the error of an attempt, unless there is only one server, because the
// error of the call names the servers.
func (c *Conn) at(address string, err error) error {
	if e, ok := err.(*net.OpError); ok {
		err = e.Err // without the addresses
	}
	if slices.Equal(c.Servers, []string{address}) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}
