package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
)

const (
	readBuffer = 32 << 10
	// watchHold is how long the first reply is held back for the client to send its watches again.
	// See hold.
	watchHold = 100 * time.Millisecond
	// lastWords is how long a server may take to answer the client's goodbye.
	lastWords = time.Second
)

// A wire is one network connection as the client sees it. It looks at each packet that passes: the
// client writes one packet per Write, and never from two goroutines at once. In between the wire
// sends requests of its own, see watches.
type wire struct {
	net.Conn
	client  *client
	address string        // as dialed
	limit   time.Duration // for the handshake

	in   *bufio.Reader // the reading goroutine's, like left
	left int           // bytes of the current frame that the client has not read yet

	sending sync.Mutex // makes the order of pending that of the packets; taken before mu, and not by those who read

	mu       sync.Mutex
	phase    phase
	granted  bool      // the handshake has brought a session
	spoken   bool      // the client has sent something else than credentials
	asked    time.Time // when the handshake was sent
	session  int64     // that it asked for; 0 for a new one
	farewell *farewell // set when the user closes the client during the handshake
	pending  pending
	watches  watches
	giveUp   time.Time     // reads end here; zero: when the client says so
	resumed  chan struct{} // closed when the watches have been sent again; nil if there is nothing to wait for
	since    int64         // the zxid by which the client has set its watches again here; 0: it has not

	rewatches int  // requests by which it does that and that are not answered
	partly    bool // there may be more of them to come
}

type phase int

const (
	fresh      phase = iota // nothing sent
	handshake               // asked for a session
	running                 // got one
	broken                  // an error was seen, or it was closed
	pretending              // see farewell
)

// past is a deadline that ends what is going on.
var past = time.Unix(1, 0)

func newWire(c *client, conn net.Conn, address string, limit time.Duration) *wire {
	return &wire{Conn: conn, client: c, address: address, limit: limit, in: bufio.NewReaderSize(conn, readBuffer)}
}

// Write sends one packet. Once there is a session it never fails: the client learns of a lost
// connection from its reading side, which ends at once, too.
//
// For it would answer the request of a failed Write, forget that, and answer it again with all the
// others that were lost. The channel of a request that sends credentials again has room for one
// answer: the client's only goroutine would wait there for ever. (And callers would get the raw
// network error in place of zk.ErrConnectionClosed.)
func (w *wire) Write(p []byte) (int, error) {
	w.sending.Lock()
	defer w.sending.Unlock()
	send, done := w.note(p)
	if done {
		return len(p), nil
	}
	n, err := w.Conn.Write(send)
	if err == nil {
		return n, nil
	}
	if w.fail(err) < running {
		return n, err
	}
	return len(p), nil
}

// note looks at a packet before it is sent, so that the time it notes is never later than the
// server's. It returns what to send, or that the packet has been dealt with.
func (w *wire) note(p []byte) (send []byte, done bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.phase {
	case fresh:
		w.phase = handshake
		w.asked = now
		session, timeout, password := connectRequest(p)
		w.session = session
		w.farewell = newFarewell(session, timeout, password)
		// The client would wait for 6.7 session timeouts here, and for its second read without end.
		w.Conn.SetDeadline(now.Add(w.limit))
		if w.client.quit.Err() != nil {
			w.Conn.SetReadDeadline(past)
		}
	case running:
		xid, op := request(p)
		w.spoken = w.spoken || op != opSetAuth
		sent := packet{xid: xid, op: op, at: now, birth: w.birth(op, p)}
		if op == opSetWatches {
			p = w.rewatch(p)
			sent.again = func() { w.send(sent, p, func() bool { return true }) }
		}
		w.pending.push(sent)
		switch {
		case op == opSetWatches && w.resumed != nil:
			close(w.resumed)
			w.resumed = nil
		case op == opClose:
			w.giveUp = now.Add(lastWords)
			w.Conn.SetReadDeadline(w.giveUp)
			w.client.goodbye()
		case setsWatch(op, p):
			if first := !w.client.watched.Swap(true); first && w.session != 0 && now.Sub(w.asked) < watchHold {
				w.resumed = make(chan struct{}) // the client may look for watches to set again only now, and find this one
			}
		}
	case pretending:
		return nil, w.farewell.write(p)
	}
	return p, false
}

// Read hands out the server's frames, each after it has been looked at.
func (w *wire) Read(p []byte) (int, error) {
	if f := w.pretends(); f != nil {
		return f.read(p)
	}
	if w.left == 0 {
		if err := w.nextFrame(); err != nil {
			if w.pretend() {
				return w.Read(p)
			}
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

// nextFrame waits for a frame and looks at its first bytes, which stay in the buffer.
func (w *wire) nextFrame() error {
	w.mu.Lock()
	phase := w.phase
	w.mu.Unlock()
	if phase == handshake {
		return w.welcome()
	}

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

// welcome reads the answer to the handshake.
func (w *wire) welcome() error {
	head, err := w.in.Peek(lengthSize)
	if err != nil {
		return w.unwelcome(err)
	}
	n := int(int32At(head, 0))
	if n < minHandshake || n > maxHandshake {
		return fmt.Errorf("%w: handshake of %d bytes", errFrame, n)
	}
	whole, err := w.in.Peek(lengthSize + n)
	if err != nil {
		return w.unwelcome(err)
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
	w.phase = running
	w.client.hosts.answered(w.address)
	if session == 0 {
		w.client.expired()
		return nil
	}
	w.granted = true
	if w.session != 0 && w.client.watched.Load() {
		w.resumed = make(chan struct{})
	}
	w.client.connected(session, granted, w.asked)
	return nil
}

// unwelcome says in the user's terms what went wrong with the handshake.
func (w *wire) unwelcome(err error) error {
	switch {
	case w.client.quit.Err() != nil:
		return errClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.client.hosts.fined(w.address, w.limit)
		return fmt.Errorf("%s accepted, but did not answer the handshake within %v: %w", w.address, w.limit, err)
	}
	return fmt.Errorf("%s closed the connection during the handshake (is it part of a quorum? does it want TLS?): %w", w.address, err)
}

// reply looks at a reply of which the header has arrived, before the client gets to see it; which
// it does unless the wire has asked on its own.
func (w *wire) reply(head []byte, size int) (forClient bool, err error) {
	xid, zxid, code := int32At(head, 4), int64At(head, 8), int32At(head, 16)
	failed := code != 0
	if xid == xidEvent {
		w.hold(0)
		return true, w.event(size)
	}
	w.mu.Lock()
	op := w.pending.op(xid)
	w.mu.Unlock()
	own := xid == xidWatches || xid == xidUnwatch // of which the client sees nothing
	if !own {
		w.hold(op)
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

	w.mu.Lock()
	p, ok := w.pending.pop(xid)
	w.mu.Unlock()
	if ok {
		if op == opClose && !failed {
			w.client.link.Parted()
		}
		if touches(op, code) {
			w.client.link.Answered(p.at)
		}
		if p.birth != nil && !failed {
			p.birth.Tell(zxid)
		}
	}
	switch {
	case ok && !own && op == opSetWatches:
		return w.rewatched(p, code)
	case !ok || !own:
		return true, nil
	case xid == xidWatches:
		if stale := w.watches.answered(code); stale != "" {
			go w.unwatch(stale)
		}
	case code == codeThrottled:
		w.sendLater(p)
	default:
		w.client.unwatched(code)
	}
	return false, nil
}

// event tells the wire's own watches of an event, before the client gets to see it.
func (w *wire) event(size int) error {
	const header = lengthSize + replyHeader
	whole, err := w.peek(header + size)
	if err != nil {
		return err
	}
	kind, path, ok := watchEvent(whole[header:])
	if !ok {
		return fmt.Errorf("%w: event of %d bytes", errFrame, size)
	}
	switch kind := zk.EventType(kind); kind {
	case zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeCreated: // others are of watches that the client has set
		unmarked := w.watches.fire(string(path), zk.Event{Type: kind, State: zk.StateConnected})
		for _, mark := range unmarked {
			go w.unwatch(mark) // who reads must not wait for room to write
		}
	}
	return nil
}

// peek looks at the next n bytes, however many.
func (w *wire) peek(n int) ([]byte, error) {
	if n > w.in.Size() {
		w.enlarge(n)
	}
	return w.in.Peek(n)
}

// enlarge replaces the buffer by one of size bytes, which is more than it has now. The new one
// reads what the former one has buffered, and then the connection. It must not read the former one:
// each reply that is larger than any before would add a buffer, and none of them could go before
// the connection ends.
func (w *wire) enlarge(size int) {
	buffered, _ := w.in.Peek(w.in.Buffered()) // cannot fail: no more than there is
	w.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(buffered), w.Conn), size)
	// Moves them at once. Otherwise they would still be outside of the buffer if that grows again.
	_, _ = w.in.Peek(len(buffered)) // cannot fail: they are there, and fit
}

// birth finds who wants to know the zxid of a create that is sent.
func (w *wire) birth(op int32, p []byte) *liveness.Birth {
	if op != opMulti && op != opCreate || !w.client.link.Expecting() {
		return nil
	}
	return w.client.link.Expected(created(op, p))
}

// hold keeps back the first reply after a reconnect until the client has sent its watches again.
//
// For the client reads its lastZxid for that request in one goroutine while it stores there the
// zxid of the first reply in another. Besides being a data race, a newer lastZxid makes the server
// believe that we have seen what happened meanwhile. The mutex, taken in Write by the one and here
// by the other, orders the two. There is nothing to order if the client has no watch left, which
// nobody can see: hence the time limit. Replies to credentials pass, as the client sends nothing
// else before it has them; they carry no zxid.
func (w *wire) hold(op int32) {
	w.mu.Lock()
	resumed := w.resumed
	w.mu.Unlock()
	if resumed == nil || op == opSetAuth {
		return
	}
	timer := time.NewTimer(watchHold)
	defer timer.Stop()
	select {
	case <-resumed:
	case <-timer.C: // a Close does not end it sooner: the client may be about to send them
	}
	w.mu.Lock()
	w.resumed = nil
	w.mu.Unlock()
}

// SetReadDeadline keeps the client from lengthening the limits of the handshake and of a goodbye.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.phase < running || w.phase == pretending:
		return nil
	case !w.giveUp.IsZero() && (t.IsZero() || t.After(w.giveUp)):
		t = w.giveUp
	}
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does the same.
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase < running || w.phase == pretending {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}

// Close is the client's. It calls it several times.
func (w *wire) Close() error {
	w.fail(net.ErrClosed)
	return w.Conn.Close()
}

// fail notes that the connection has ended, before the client gets to know, and returns the phase
// it was in.
func (w *wire) fail(err error) (was phase) {
	w.mu.Lock()
	was = w.phase
	w.phase = broken
	w.mu.Unlock()
	if was != broken {
		w.client.failed(w, was == running, err)
		w.watches.end()
		w.Conn.Close()
	}
	return was
}
