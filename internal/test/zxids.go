package test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// Ordered returns a dialer for one client of zk.Connect, without the client's own data race: it
// reads its last zxid, when it sets its watches again, in one goroutine, and stores that of a reply
// in another. The network connections of this dialer keep the zxids of replies to themselves, and
// write the last one into each handshake and into each request that sets watches again.
func Ordered(dial func(network, address string, timeout time.Duration) (net.Conn, error)) func(string, string, time.Duration) (net.Conn, error) {
	last := new(atomic.Int64)
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return &ordered{Conn: conn, last: last}, nil
	}
}

type ordered struct {
	net.Conn
	last *atomic.Int64 // the zxid of the last reply in this session; 0: none

	greeted bool  // the handshake has been sent
	since   int64 // what last was then; 0: a new session

	answered bool   // the handshake has been answered
	frame    []byte // the rest of the one that the client reads
}

// Write changes the first packet, which is four bytes of length, then the protocol's version, the
// last zxid, the timeout and the session, and SetWatches, which has the zxid behind its header of
// length, xid and operation.
func (c *ordered) Write(p []byte) (int, error) {
	const inHandshake, session, operation, inSetWatches = 8, 20, 8, 12
	at, zxid := 0, int64(0)
	switch {
	case !c.greeted:
		if binary.BigEndian.Uint64(p[session:]) == 0 {
			c.last.Store(0)
		}
		c.greeted, c.since = true, c.last.Load()
		at, zxid = inHandshake, c.since
	case len(p) >= inSetWatches+8 && binary.BigEndian.Uint32(p[operation:]) == 101:
		at, zxid = inSetWatches, c.since
		if zxid == 0 { // watches of this session, which are set
			zxid = c.last.Load()
		}
	}
	if at > 0 {
		p = slices.Clone(p)
		binary.BigEndian.PutUint64(p[at:], uint64(zxid))
	}
	return c.Conn.Write(p)
}

func (c *ordered) Read(p []byte) (int, error) {
	if len(c.frame) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.frame)
	c.frame = c.frame[n:]
	return n, nil
}

// next reads a frame, and takes the zxid from that of a reply: xid, zxid, error.
func (c *ordered) next() error {
	const most = 64 << 20
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head)
	if n > most {
		return errors.New("a frame of more than 64 MiB")
	}
	frame := append(head, make([]byte, n)...)
	if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
		return err
	}
	if reply := frame[4:]; c.answered && n >= 16 && int32(binary.BigEndian.Uint32(reply)) >= 0 {
		if zxid := int64(binary.BigEndian.Uint64(reply[4:])); zxid > 0 {
			c.last.Store(zxid)
		}
		binary.BigEndian.PutUint64(reply[4:], 0)
	}
	c.answered, c.frame = true, frame
	return nil
}
