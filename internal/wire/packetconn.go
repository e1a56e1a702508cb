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
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	readBuffer = 32 << 10
	// closeTimeout is how long a server may take to answer the client's request to end the session.
	closeTimeout = time.Second
	// throttlePause is how long an overloaded server gets no request again.
	throttlePause = 100 * time.Millisecond
	// refusalPause is how long a connection lasts on which credentials are refused: another server,
	// or this one after a change of its configuration, may accept them.
	refusalPause = time.Second
)

// A packetConn is one network connection as the client sees it. It inspects each packet that
// passes. The client writes one packet per Write, and never from two goroutines at once. Between
// them the packetConn sends requests of its own, see watches.
type packetConn struct {
	net.Conn
	client  *Conn
	address string        // as dialed
	limit   time.Duration // for the handshake

	in   *bufio.Reader // used by the reading goroutine only, like left
	left int           // bytes of the current frame that the client has not read yet

	sending sync.Mutex // makes pending's order that of the packets; lock order: sending, mu; readers do not take it

	mu       sync.Mutex
	phase    phase
	pastAuth bool      // the client has sent a request other than credentials
	asked    time.Time // when the handshake was sent
	pending  pending
	beating  int // heartbeats that are not answered yet
	watches  watches
	giveUp   time.Time // reads end at this time; zero: when the client says so
}

type phase int

const (
	fresh     phase = iota // nothing sent
	handshake              // asked for a session
	running                // got one
	broken                 // an error was seen, the session is over, or it was closed
)

var errRefused = fmt.Errorf("the server refuses credentials that were accepted before: %w", zk.ErrAuthFailed)

// past is a deadline that ends reads and writes at once.
var past = time.Unix(1, 0)

func newPacketConn(c *Conn, conn net.Conn, address string, limit time.Duration) *packetConn {
	return &packetConn{Conn: conn, client: c, address: address, limit: limit, in: bufio.NewReaderSize(conn, readBuffer)}
}

// Write sends one packet. Once there is a session it never fails: the client learns of a lost
// connection from its reading side, which ends at once, too.
//
// If a Write failed, the client would answer its request, forget that, and answer it again with all
// other lost requests. The channel of a request that sends credentials again has room for one
// answer, so the client's only goroutine would block there forever. Callers would also get the raw
// network error instead of zk.ErrConnectionClosed.
func (w *packetConn) Write(p []byte) (int, error) {
	w.sending.Lock()
	defer w.sending.Unlock()
	send := w.note(p)
	w.client.tellClosed() // before the server is asked to end the session
	n, err := w.Conn.Write(send)
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
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.phase {
	case fresh:
		w.phase = handshake
		w.asked = now
		if resumedSession(p) == 0 {
			// The client asks for what the last session was granted: the limits of one member would
			// bind all later sessions.
			p = asksFor(p, w.client.timeout)
		} else {
			p = resumesAt(p, w.client.zxid.Load())
		}
		// The client would wait 6.7 session timeouts here, and its second read has no deadline.
		w.Conn.SetDeadline(now.Add(w.limit))
		if w.client.quit.Err() != nil {
			w.Conn.SetReadDeadline(past)
		}
	case running:
		xid, op := request(p)
		if !w.pastAuth && op != opSetAuth {
			w.pastAuth = true
			w.client.beatNow()
		}
		sent := packet{xid: xid, op: op, at: now, createZxid: w.client.tracked(created(op, p))}
		w.pending.push(sent)
		p = w.watches.flag(op, p)
		if op == opClose {
			w.giveUp = now.Add(closeTimeout)
			w.Conn.SetReadDeadline(w.giveUp)
			w.client.beginClose()
		}
	}
	return p
}

// Read returns the server's frames to the client, each after it has been inspected.
func (w *packetConn) Read(p []byte) (int, error) {
	w.mu.Lock()
	phase := w.phase
	w.mu.Unlock()
	if w.left == 0 {
		next := w.nextFrame
		if phase == handshake {
			next = w.readHandshake
		}
		if err := next(); err != nil {
			err = w.client.at(w.address, err)
			w.fail(err)
			return 0, err
		}
	}
	n, err := w.in.Read(p[:min(len(p), w.left)])
	w.left -= n
	if err != nil {
		w.fail(err)
	}
	return n, err
}

// nextFrame waits for a frame behind the handshake and inspects its first bytes, which stay in the
// buffer.
func (w *packetConn) nextFrame() error {
	for {
		head, err := w.in.Peek(lengthSize)
		if err != nil {
			return err
		}
		n := int(int32At(head, 0))
		if n < replyHeader || n > maxReply {
			return fmt.Errorf("%w: reply of %d bytes", errFrame, n)
		}
		if head, err = w.in.Peek(lengthSize + replyHeader); err != nil {
			return err
		}
		forClient, err := w.reply(head, n-replyHeader)
		if err != nil {
			return err
		}
		if forClient {
			w.left = lengthSize + n
			return nil
		}
		if _, err := w.in.Discard(lengthSize + n); err != nil {
			return err
		}
	}
}

// readHandshake reads the answer to the handshake.
func (w *packetConn) readHandshake() error {
	head, err := w.in.Peek(lengthSize)
	if err != nil {
		return w.handshakeError(err)
	}
	n := int(int32At(head, 0))
	switch {
	case string(head) == "HTTP":
		return errors.New("the server speaks HTTP: this is not ZooKeeper's client port")
	case n < minHandshake || n > maxHandshake:
		return fmt.Errorf("%w: handshake of %d bytes", errFrame, n)
	}
	whole, err := w.in.Peek(lengthSize + n)
	if err != nil {
		return w.handshakeError(err)
	}
	session, granted, err := connectReply(whole)
	if err != nil {
		return err
	}
	w.left = lengthSize + n

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != handshake {
		return net.ErrClosed
	}
	w.Conn.SetDeadline(time.Time{})
	w.client.hosts.answered()
	if session == 0 {
		w.phase = broken
		w.client.zxid.Store(0)
		w.client.expire()
		return nil
	}
	w.phase = running
	w.client.connected(session, granted, w.asked)
	if shortest := w.client.Timeout(); 0 < shortest && shortest < granted {
		// The client must send its pings, and give up a silent server, by the timeout that counts.
		binary.BigEndian.PutUint32(whole[timeoutInHandshake:], uint32(shortest.Milliseconds()))
	}
	return nil
}

// handshakeError explains in the user's terms why the handshake failed.
func (w *packetConn) handshakeError(err error) error {
	switch {
	case w.client.quit.Err() != nil:
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
// after a reconnect. The handshake states the real zxid, see resumesAt.
func (w *packetConn) takeZxid(head []byte) {
	if zxid := int64At(head, zxidInReply); zxid > 0 {
		w.client.zxid.Store(zxid)
	}
	binary.BigEndian.PutUint64(head[zxidInReply:], 0)
}

// reply inspects a reply whose header has arrived, before the client sees it. forClient is false
// for the answers to the packetConn's own requests, which the client must not see.
func (w *packetConn) reply(head []byte, size int) (forClient bool, err error) {
	xid, zxid, code := int32At(head, 4), int64At(head, zxidInReply), int32At(head, 16)
	failed := code != 0
	if xid == xidEvent {
		return true, w.event(size)
	}
	w.mu.Lock()
	p, ok := w.pending.pop(xid)
	beat := ok && xid <= xidBeat
	if beat {
		w.beating--
	}
	w.mu.Unlock()
	op := p.op
	own := beat || xid == xidWatches || xid == xidUnwatch // answers to requests of the packetConn itself
	if xid >= 0 {
		w.takeZxid(head)
	}

	if !failed {
		n := lengthSize + replyHeader + size
		if op != opMulti {
			n = min(n, lengthSize+replyHeader+4)
		}
		whole, err := w.peek(n)
		if err != nil {
			return false, err
		}
		if err := checkBody(op, size, whole[lengthSize+replyHeader:]); err != nil {
			return false, err
		}
	}

	if ok {
		if op != opPing {
			w.client.Dropped.Store(code == codeThrottled)
		}
		if op == opClose && !failed {
			w.client.closeConfirmed.Store(true)
		}
		if beat {
			w.client.beaten(p.at)
		}
		if touches(op, code) {
			w.client.answered(p.at, proves(op, code))
		}
		if p.createZxid != nil && !failed {
			p.createZxid.Store(zxid)
		}
	}
	switch {
	case ok && op == opSetAuth && failed:
		w.client.refused(w.address)
		return true, nil
	case ok && !own && op == opSetWatches && failed:
		// The client would only log it, and its watches would never fire. It sets them again on the
		// next connection.
		return false, fmt.Errorf("refused to set watches again (code %d)", code)
	case !ok || !own:
		return true, nil
	case beat: // a server that is overloaded has dropped it: the next one is due soon
	case xid == xidWatches:
		w.watchesSet(codeError(code))
	case code == codeThrottled:
		time.AfterFunc(throttlePause, p.resend)
	case code == codeUnimplemented: // all other codes mean the same: the watch may have fired meanwhile
		w.client.noRemoveWatches.Store(true)
	}
	return false, nil
}

// event passes an event to the packetConn's own watches, before the client sees it.
func (w *packetConn) event(size int) error {
	const header = lengthSize + replyHeader
	whole, err := w.peek(header + size)
	if err != nil {
		return err
	}
	kind, path, ok := watchEvent(whole[header:])
	if !ok {
		return fmt.Errorf("%w: event of %d bytes", errFrame, size)
	}
	w.fireWatches(zk.EventType(kind), string(path))
	return nil
}

// peek returns the next n bytes, however many, and leaves them in the buffer.
func (w *packetConn) peek(n int) ([]byte, error) {
	if n > w.in.Size() {
		w.enlarge(n)
	}
	return w.in.Peek(n)
}

// enlarge replaces the buffer by one of size bytes, which is larger than the current one. The new
// buffer reads what the old one has buffered, and then the connection. It must not read from the
// old buffer: then each reply that is larger than all before would add a buffer, and none of them
// could be freed before the connection ends.
func (w *packetConn) enlarge(size int) {
	buffered, _ := w.in.Peek(w.in.Buffered()) // cannot fail: no more than there is
	w.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(buffered), w.Conn), size)
	// This moves them into the new buffer. Otherwise they would still be outside of it when it
	// grows again.
	_, _ = w.in.Peek(len(buffered)) // cannot fail: they are there, and fit
}

// SetReadDeadline does not let the client extend the deadlines of the handshake and of a close.
func (w *packetConn) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.phase < running:
		return nil
	case !w.giveUp.IsZero() && (t.IsZero() || t.After(w.giveUp)):
		t = w.giveUp
	}
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does not let the client extend the deadline of the handshake.
func (w *packetConn) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase < running {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}

// abort is called when the user has closed the client. It ends a handshake that hangs. A running
// connection keeps closeTimeout for the client's request to end the session.
func (w *packetConn) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.phase {
	case fresh, handshake:
		w.Conn.SetReadDeadline(past)
	case running:
		if w.giveUp.IsZero() {
			w.giveUp = time.Now().Add(closeTimeout)
			w.Conn.SetReadDeadline(w.giveUp)
		}
	}
}

// Close is called by the client, several times.
func (w *packetConn) Close() error {
	w.fail(net.ErrClosed)
	return w.Conn.Close()
}

// fail records that the connection has ended, before the client knows, and returns the phase it was
// in.
func (w *packetConn) fail(err error) (was phase) {
	w.mu.Lock()
	was = w.phase
	w.phase = broken
	w.mu.Unlock()
	if was != broken {
		w.client.ended(w, was == running, err)
		w.endWatches()
		w.Conn.Close()
	}
	return was
}
