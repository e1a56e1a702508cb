package test

import (
	"encoding/binary"
	"net"
	"slices"
	"time"
)

// AskFor has the handshake on a connection of the zk client ask for another session timeout: what
// the server grants then is what one with other limits would grant.
func AskFor(c net.Conn, timeout time.Duration) net.Conn { return &asking{c, timeout} }

type asking struct {
	net.Conn
	timeout time.Duration // 0: the handshake has been sent
}

// Write changes the first packet: four bytes of length, then the protocol's version, the last zxid
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
