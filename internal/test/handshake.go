package test

import (
	"encoding/binary"
	"net"
	"slices"
	"time"
)

// AskFor makes the handshake on a connection of the zk client request another session timeout: the
// server then grants what a server with other limits would grant.
func AskFor(c net.Conn, timeout time.Duration) net.Conn { return &asking{c, timeout} }

type asking struct {
	net.Conn
	timeout time.Duration // 0: the handshake was sent
}

// Write changes the first packet: four bytes of length, then the protocol version, the last zxid
// and the timeout in milliseconds.
func (c *asking) Write(p []byte) (int, error) {
	const at = 4 + 4 + 8
	if c.timeout > 0 && len(p) >= at+4 {
		p = slices.Clone(p)
		binary.BigEndian.PutUint32(p[at:], uint32(c.timeout.Milliseconds()))
		c.timeout = 0
	}
	return c.Conn.Write(p)
}
