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
	// throttlePause is how long an overloaded server gets no request again.
	throttlePause = 100 * time.Millisecond
	// refusalPause is how long a connection lasts on which credentials are refused: another server,
	// or this one after a change of its configuration, may accept them.
	refusalPause = time.Second
)

// A packetConn is one network connection as the client sees it. It inspects each packet that
// passes. The client writes one packet per Write, and never from two goroutines at once. Between
// them the packetConn sends requests of its own: heartbeats, and those that set and remove watches.
type packetConn struct {
	net.Conn
	client  *Conn
	address string        // as dialed
	limit   time.Duration // for the handshake

	// Only the reading goroutine uses in, buf and left.
	in   *bufio.Reader
	buf  []byte // the current frame, with its length in front
	left []byte // the end of buf that the client has not read yet

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
	running                // got one
	broken                 // an error was seen, the session is over, or it was closed
)

// A packet is a request that was sent.
type packet struct {
	op         int32
	at         time.Time     // before it was written
	createZxid *atomic.Int64 // receives the zxid of the reply; or nil
	// answered is called once, by the goroutine that holds client.mu, with the code of the answer,
	// or with codeConnectionLoss. It is nil for the client's requests.
	answered func(code int32)
}

var errRefused = fmt.Errorf("the server refuses credentials that were accepted before: %w", zk.ErrAuthFailed)

func newPacketConn(c *Conn, conn net.Conn, address string, limit time.Duration) *packetConn {
	return &packetConn{
		Conn: conn, client: c, address: address, limit: limit,
		in:   bufio.NewReaderSize(conn, readBuffer),
		sent: make(map[int32]packet),
	}
}

// Write sends one packet. Once there is a session it never fails: the client learns of a lost
// connection from its reading side, which ends at once, too.
//
// If a Write failed, the client would answer its request, forget that, and answer it again with all
// other lost requests. The channel of a request that sends credentials again has room for one
// answer, so the client's only goroutine would block there forever. Callers would also get the raw
// network error instead of zk.ErrConnectionClosed.
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

// note inspects a packet before it is sent, so that the time it records is never later than the
// server's. It returns what to send.
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
			// The client asks for what the last session was granted: the limits of one member would
			// bind all later sessions.
			binary.BigEndian.PutUint32(p[timeoutInRequest:], uint32(c.timeout.Milliseconds()))
		} else {
			// A server that has not applied what the client has seen must refuse it.
			binary.BigEndian.PutUint64(p[zxidInRequest:], uint64(c.zxid.Load()))
		}
		// The client would wait 6.7 session timeouts here, and its second read has no deadline.
		w.Conn.SetDeadline(now.Add(w.limit))
	case running:
		xid, op := request(p)
		if !w.pastAuth && op != opSetAuth {
			w.pastAuth = true
			c.beatAt(now)
		}
		if _, again := w.sent[xid]; !again { // pings have one xid: the answer is taken for that to the first
			w.sent[xid] = packet{op: op, at: now, createZxid: c.tracked(created(op, p))}
		}
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

// nextFrame reads a frame behind the handshake that is for the client.
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

// readFrame reads a frame of least to most bytes into buf.
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
	case err != nil:
		return w.handshakeError(err)
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
	shortest := c.Timeout()
	c.hosts.timeout = shortest
	if 0 < shortest && shortest < granted {
		// The client must send its pings, and give up a silent server, by the timeout that counts.
		binary.BigEndian.PutUint32(w.buf[timeoutInHandshake:], uint32(shortest.Milliseconds()))
	}
	return nil
}

// handshakeError explains in the user's terms why the handshake failed.
func (w *packetConn) handshakeError(err error) error {
	switch {
	case w.client.IsClosed():
		return net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.client.hosts.hung()
		return fmt.Errorf("accepted the connection, but did not answer the handshake within %v", w.limit)
	}
	return errors.New("closed the connection during the handshake " +
		"(not part of a quorum? TLS expected? maxClientCnxns reached? data older than the client has seen?)")
}

// takeZxid records the zxid of the reply to a request, and hides it from the client.
//
// The client reads its last zxid in one goroutine, to set its watches again after a reconnect,
// while another goroutine stores the zxid of a reply: a data race, and a zxid that is too new loses
// events. With the zxid hidden the client always states 0, so the server fires each of its watches
// after a reconnect. The handshake states the real zxid, see note.
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
		delete(w.sent, xid)
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
	case r.op == opSetAuth && code != 0:
		w.refused()
	case r.op == opSetWatches && code != 0:
		// The client would only log it, and its watches would never fire. It sets them again on the
		// next connection.
		return false, fmt.Errorf("refused to set watches again (code %d)", code)
	}
	return true, nil
}

// refused delays a server's refusal of credentials that were accepted before. When the client reads
// the refusal it ends the connection and connects again at once; Connect fails. If the client has
// watches, each such connection also leaves one of the client's goroutines, which waits with the
// request that sets them again until a server accepts the credentials.
func (w *packetConn) refused() {
	c := w.client
	if !c.returned.Load() {
		return
	}
	c.mu.Lock()
	c.note(c.at(w.address, errRefused))
	c.mu.Unlock()
	sleep(c.quit, refusalPause)
}

// event fires the packetConn's own watches, before the client sees the event. A marker's creation
// fires only the watch with that marker: the others fire by the deletion, which comes next.
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
		case watch.isSet && watch.mark != "" && watch.mark != e.Path: // if it is not set, WatchNodes does that
			go w.unwatch(watch.mark) // a goroutine that reads must not wait for room to write
		}
	}
	return nil
}

// send sends a request of the packetConn's own between the client's requests, if there is a session
// and ready, which may be nil and is called right before, returns true. For answered see packet.
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

// unwatch removes the watches on a marker or on another node, unless a waiter watches that again.
func (w *packetConn) unwatch(path string) {
	c := w.client
	unwatched := func() bool { return len(w.watches[path]) == 0 && !c.noRemoveWatches.Load() }
	w.send(opRemoveWatches, encode(nil, path, anyWatches), unwatched, func(code int32) {
		switch code {
		case codeThrottled: // the server has dropped the request
			time.AfterFunc(throttlePause, func() { w.unwatch(path) })
		case codeUnimplemented: // all other codes mean the same: the watch may have fired meanwhile
			c.noRemoveWatches.Store(true)
		}
	})
}

// ping has the client make a request that any server answers from memory. From 3.8.4 on a client
// without READ on the root gets a refusal, which is an answer.
func (c *Conn) ping() error {
	_, _, err := c.Exists("/")
	if err == zk.ErrNoAuth {
		return nil
	}
	return err
}

// SetReadDeadline does not let the client extend the deadline of the handshake.
func (w *packetConn) SetReadDeadline(t time.Time) error {
	return w.setDeadline(w.Conn.SetReadDeadline, t)
}

// SetWriteDeadline is like SetReadDeadline.
func (w *packetConn) SetWriteDeadline(t time.Time) error {
	return w.setDeadline(w.Conn.SetWriteDeadline, t)
}

func (w *packetConn) setDeadline(set func(time.Time) error, t time.Time) error {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	if w.phase < running {
		return nil
	}
	return set(t)
}

// Close is called by the client, several times.
func (w *packetConn) Close() error {
	w.fail(net.ErrClosed)
	return nil
}

// fail ends the connection, before the client knows, and returns the phase it was in.
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

// at adds the address to the error of an attempt, unless there is only one server: the
// caller that reports the error names the servers.
func (c *Conn) at(address string, err error) error {
	if e, ok := err.(*net.OpError); ok {
		err = e.Err // without the addresses
	}
	if slices.Equal(c.Servers, []string{address}) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}
