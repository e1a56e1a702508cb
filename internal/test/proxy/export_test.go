package proxy

// Live is how many connections there are.
func (p *Proxy) Live() int { return len(p.live(func(*proxyConn) bool { return true })) }

// LostReplies is how many connections have lost a packet to the client.
func (p *Proxy) LostReplies() int {
	return len(p.live(func(c *proxyConn) bool { return c.lossy[toClient] }))
}
