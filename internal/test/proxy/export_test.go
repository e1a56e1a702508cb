package proxy

// Live returns the number of connections.
func (p *Proxy) Live() int { return len(p.live(func(*proxyConn) bool { return true })) }

// LostReplies returns the number of connections that have lost a packet to the client.
func (p *Proxy) LostReplies() int {
	return len(p.live(func(c *proxyConn) bool { return c.lossy[toClient] }))
}
