package realzk

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// dialOrdered is the client's own dialer, but for RepliesOrdered.
func dialOrdered(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return RepliesOrdered(conn, 100*time.Millisecond), nil
}

// RepliesOrdered avoids a data race inside the client that the race detector would find at each
// reconnect: lastZxid, read when the client sends its watches again, written when the first reply
// arrives. Here the first reply waits for the watches, but no longer than patience, because there
// may be no watches. In a bubble the shortest patience is enough: it passes only when the client
// waits.
func RepliesOrdered(conn net.Conn, patience time.Duration) net.Conn {
	return &ordered{Conn: conn, patience: patience, watches: make(chan struct{})}
}

type ordered struct {
	net.Conn
	patience time.Duration
	reads    int
	once     sync.Once
	watches  chan struct{} // closed when they have been sent
}

func (c *ordered) Write(p []byte) (int, error) {
	const setWatches = 101
	if len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == setWatches {
		defer c.once.Do(func() { close(c.watches) })
	}
	return c.Conn.Write(p)
}

func (c *ordered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.reads++; c.reads == 3 { // the handshake's length, the handshake, the first reply
		late := time.NewTimer(c.patience)
		defer late.Stop()
		select {
		case <-c.watches:
		case <-late.C:
		}
	}
	return n, err
}
