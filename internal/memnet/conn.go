package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Conn is one end of a connection. It is a net.Conn with CloseWrite.
type Conn struct {
	n             *Network
	local, remote Addr
	peer          *Conn

	// guarded by n.mu

	cond sync.Cond // Read waits for it

	// Incoming packets.
	way    way
	flight []packet    // sent to this end and not arrived, in order
	next   *time.Timer // lets the first of flight arrive
	lossy  bool        // a packet to this end was lost: no later packet arrives
	buf    []byte      // arrived; unread from index read on
	read   int
	fin    bool // the other end has closed its writing side: io.EOF after buf
	broken bool // reset: an error after buf, and nothing can be sent

	wrote  bool // CloseWrite or Close was called
	closed bool

	readDeadline, writeDeadline time.Time
	alarm                       *time.Timer // wakes Read at a deadline; nil until a Read has waited
	alarmAt                     time.Time   // zero: not set
}

// A packet travels as a whole.
type packet struct {
	kind kind
	data []byte
	due  time.Time
}

type kind int

const (
	data kind = iota
	fin       // no more data follows
	rst       // the other end is gone
)

func newConn(n *Network, local, remote Addr) *Conn {
	c := &Conn{n: n, local: local, remote: remote}
	c.cond.L = &n.mu
	return c
}

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

func (c *Conn) error(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

func past(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// Read waits for data. As with TCP, an expired deadline takes precedence over data, and data over
// the end of the connection.
func (c *Conn) Read(p []byte) (int, error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.error("read", net.ErrClosed)
		case past(c.readDeadline):
			return 0, c.error("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case c.read < len(c.buf):
			n := copy(p, c.buf[c.read:])
			if c.read += n; c.read == len(c.buf) {
				c.buf, c.read = c.buf[:0], 0
			}
			return n, nil
		case c.fin:
			return 0, io.EOF
		case c.broken:
			return 0, c.error("read", os.NewSyscallError("read", syscall.ECONNRESET))
		}
		c.arm()
		c.cond.Wait()
	}
}

// arm makes Read wake up at its deadline; caller holds mu. If the alarm is already set for an
// earlier time, arm leaves it: Read then wakes up too early, and calls arm again. So a client that
// moves its deadline before each Read sets few timers.
func (c *Conn) arm() {
	at := c.readDeadline
	if at.IsZero() || !c.alarmAt.IsZero() && !at.Before(c.alarmAt) {
		return
	}
	c.alarmAt = at
	if c.alarm != nil {
		c.alarm.Reset(time.Until(at))
		return
	}
	c.alarm = time.AfterFunc(time.Until(at), func() {
		c.n.mu.Lock()
		defer c.n.mu.Unlock()
		c.alarmAt = time.Time{}
		c.cond.Broadcast()
	})
}

// Write never blocks: the buffers are unlimited.
func (c *Conn) Write(p []byte) (int, error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	switch {
	case c.closed:
		return 0, c.error("write", net.ErrClosed)
	case past(c.writeDeadline):
		return 0, c.error("write", os.ErrDeadlineExceeded)
	case c.wrote, c.broken && c.fin:
		return 0, c.error("write", os.NewSyscallError("write", syscall.EPIPE))
	case c.broken:
		return 0, c.error("write", os.NewSyscallError("write", syscall.ECONNRESET))
	case len(p) > 0:
		c.send(packet{kind: data, data: p})
	}
	return len(p), nil
}

// CloseWrite ends the stream to the other end. This end can still read.
func (c *Conn) CloseWrite() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	switch {
	case c.closed:
		return c.error("close", net.ErrClosed)
	case c.broken:
		return c.error("close", os.NewSyscallError("shutdown", syscall.ENOTCONN))
	}
	c.finish()
	return nil
}

func (c *Conn) finish() {
	if !c.wrote {
		c.wrote = true
		c.send(packet{kind: fin})
	}
}

// Close ends Reads: at this end at once, at the other end when it has read everything written
// before. As in TCP, Close resets the connection if this end has not read all data that had
// arrived.
func (c *Conn) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.closed {
		return c.error("close", net.ErrClosed)
	}
	switch {
	case c.broken:
	case c.read < len(c.buf):
		c.send(packet{kind: rst})
	default:
		c.finish()
	}
	c.shut()
	return nil
}

// shut closes this end for its program; caller holds mu.
func (c *Conn) shut() {
	c.closed, c.wrote = true, true
	c.buf, c.read = nil, 0
	if c.alarm != nil {
		c.alarm.Stop()
	}
	c.cond.Broadcast()
	if c.peer.closed {
		for _, c := range []*Conn{c, c.peer} {
			delete(c.n.conns, c)
			c.drop()
		}
	}
}

// Closed reports whether Close was called.
func (c *Conn) Closed() bool {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	return c.closed
}

// Ended reports whether the other end has closed its writing side, and everything that it wrote has
// arrived.
func (c *Conn) Ended() bool {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	return c.fin
}

// SetDeadline sets the deadlines of Read and Write.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(&t, &t) }

// SetReadDeadline sets the deadline of Read. A waiting Read uses the new deadline.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(&t, nil) }

// SetWriteDeadline sets the deadline after which Write fails.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(nil, &t) }

func (c *Conn) setDeadlines(read, write *time.Time) error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.closed {
		return c.error("set", net.ErrClosed)
	}
	if write != nil {
		c.writeDeadline = *write
	}
	if read != nil {
		c.readDeadline = *read
		c.cond.Broadcast() // a waiting Read sets its alarm again
	}
	return nil
}

// send sends a packet to the other end; it does not keep p.data. Caller holds mu.
func (c *Conn) send(p packet) {
	to := c.peer
	switch {
	case to.way.hole || to.lossy:
		to.lose()
	case len(to.flight) == 0 && !to.way.frozen && to.way.delay == 0:
		to.arrive(p)
	default:
		p.data = append([]byte(nil), p.data...)
		p.due = time.Now().Add(to.way.delay)
		if n := len(to.flight); n > 0 && p.due.Before(to.flight[n-1].due) {
			p.due = to.flight[n-1].due // after a shorter delay no packet overtakes another
		}
		to.flight = append(to.flight, p)
		to.schedule()
	}
}

// lose drops the packets in flight to this end, and all later ones; caller holds mu.
func (c *Conn) lose() {
	c.lossy = true
	c.drop()
}

// drop drops the packets in flight to this end; caller holds mu.
func (c *Conn) drop() {
	c.flight = nil
	if c.next != nil {
		c.next.Stop()
	}
}

// schedule makes the first packet in flight arrive when it is due; caller holds mu.
func (c *Conn) schedule() {
	if c.way.frozen || len(c.flight) == 0 {
		return
	}
	wait := time.Until(c.flight[0].due)
	if c.next != nil {
		c.next.Reset(wait)
		return
	}
	c.next = time.AfterFunc(wait, func() {
		c.n.mu.Lock()
		defer c.n.mu.Unlock()
		c.deliver()
	})
}

// deliver delivers the packets in flight that are due; caller holds mu.
func (c *Conn) deliver() {
	for !c.way.frozen && len(c.flight) > 0 && !time.Now().Before(c.flight[0].due) {
		p := c.flight[0]
		c.flight = c.flight[1:]
		if c.way.hole {
			c.lose()
			return
		}
		c.arrive(p)
	}
	c.schedule()
}

// arrive delivers a packet to this end; caller holds mu.
func (c *Conn) arrive(p packet) {
	switch {
	case c.broken || c.closed:
		if p.kind == data { // the system answers in place of a program that is gone
			c.send(packet{kind: rst})
		}
		return
	case p.kind == data:
		if c.read > 0 && len(c.buf)+len(p.data) > cap(c.buf) {
			c.buf = c.buf[:copy(c.buf, c.buf[c.read:])]
			c.read = 0
		}
		c.buf = append(c.buf, p.data...)
	case p.kind == fin:
		c.fin = true
	case p.kind == rst:
		c.reset()
	}
	c.cond.Broadcast()
}

func (c *Conn) reset() {
	if c.closed || c.broken {
		return
	}
	c.broken = true
	c.drop()
	c.cond.Broadcast()
}

// reroute applies new rules to packets to this end; caller holds mu.
func (c *Conn) reroute(w way) {
	healed := c.way.hole && !w.hole
	c.way = w
	if healed && c.lossy {
		c.reset()
		c.peer.reset()
		return
	}
	c.deliver()
}
