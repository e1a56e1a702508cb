package wire

import (
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// SetServers is zklocks.Conn.SetServers.
//
// A connection to a server that remains moves only if a server chosen at random is new. So of many
// clients the share moves that gives each server as many, as in ZooKeeper's Java client.
func (c *Conn) SetServers(servers []string) error {
	addresses, err := Addresses(servers)
	if err != nil {
		return err
	}
	c.moving <- struct{}{}
	defer func() { <-c.moving }()
	if c.IsClosed() {
		return zk.ErrClosing
	}
	old := c.Servers()
	c.hosts.given.Store(&addresses)
	at := c.upAt()
	if at == "" { // the next attempt takes the new servers
		return nil
	}
	others := shuffled(addresses)
	if slices.Contains(addresses, at) {
		if others = others[:1]; slices.Contains(old, others[0]) {
			return nil
		}
	}
	for _, server := range others {
		if c.moves.Err() != nil || c.move(server) {
			break
		}
	}
	return nil
}

// Rebalance is zklocks.Conn.Rebalance.
func (c *Conn) Rebalance() {
	c.moving <- struct{}{}
	defer func() { <-c.moving }()
	if pick, at := shuffled(c.Servers())[0], c.upAt(); at != "" && pick != at {
		c.move(pick)
	}
}

// upAt returns the server of the connection that has the session, as it was given; "": none.
func (c *Conn) upAt() string {
	if p := c.running(); p != nil {
		return p.server
	}
	return ""
}

// move opens a connection to another server and then ends the present connection. run takes the new
// connection at once. If the server cannot be reached, or the present connection fails meanwhile,
// nothing changes, and move returns false. Otherwise it returns when the session has moved.
//
// From leave on requests wait, and those that were sent are answered, for T/4: a server whose
// answers take longer keeps no hold anyway. When the present connection ends, each request of the
// locks that is left fails as after a lost connection: an attempt sends it again, on the new
// connection, or searches for what it may have done. The handshake states the last zxid that was
// read, so the new server shows no older data.
func (c *Conn) move(server string) bool {
	next, err := c.open(c.moves, server, server, longestTry)
	if err != nil {
		if c.moves.Err() == nil {
			c.Printf("zklocks: not moved to %s: %s", server, strings.TrimPrefix(err.Error(), server+": "))
		}
		return false
	}
	c.mu.Lock()
	p, err := c.in(AnySession)
	if err != nil || c.moves.Err() != nil {
		c.mu.Unlock()
		next.Conn.Close()
		return false
	}
	c.next = next
	drained := p.leave()
	c.mu.Unlock()
	limit := time.NewTimer(c.Timeout() / 4)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
	case <-c.moves.Done():
	}
	p.fail()
	limit.Reset(longestTry)
	for closing := c.moves.Done(); ; {
		changed := c.Changed()
		if c.upAt() == server {
			return true
		}
		select {
		case <-changed:
		case <-limit.C: // the new connection has failed, too
			return true
		case <-closing: // Close ends the session on the new connection, unless its server does not answer
			limit.Reset(closeLimit / 2)
			closing = nil
		}
	}
}
