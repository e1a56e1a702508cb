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

// Ordered returns a dialer for a client of zk.Connect that avoids the client's own data race: one
// of its goroutines reads the last zxid, to set its watches again, while another stores the zxid of
// a reply. The connections of this dialer hide the zxids of replies from the client, and write the
// last zxid into each handshake and into each SetWatches.
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
	last *atomic.Int64 // the last zxid in this session; 0: none

	greeted bool  // the handshake was sent
	since   int64 // the last zxid at that time; 0: a new session

	answered bool   // the handshake was answered
	frame    []byte // the unread rest of a frame
}

// Write changes the first packet (four bytes of length, then the protocol version, the last zxid,
// the timeout and the session) and SetWatches (the zxid follows the header of length, xid and
// operation).
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
		if zxid == 0 { // this session's watches were set
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

// next reads a frame, and removes the zxid if it is a reply: xid, zxid, error.
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
