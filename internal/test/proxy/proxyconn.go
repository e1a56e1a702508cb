package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// proxyConn is a client's connection and the connection to the server, with a goroutine for each
// direction.
type proxyConn struct {
	proxy  *Proxy
	door   *door
	client net.Conn
	gone   chan struct{} // closed when cut
	once   sync.Once
	lossy  [2]bool // has lost a packet, by direction; guarded by proxy.mu

	mu        sync.Mutex
	server    net.Conn // nil before the dial
	pending   pending
	handshake *Fault // the fault that strikes at the answer to the handshake, which has no xid
}

// pending are the faults that strike at replies, by xid. Most requests have unique xids. Others
// (pings, credentials) share a negative xid for each kind, and are answered in order: each of them
// has an entry here, nil if no fault strikes its reply.
type pending map[int32][]*Fault

func (p pending) add(xid int32, f *Fault) {
	if f != nil || xid < 0 {
		p[xid] = append(p[xid], f)
	}
}

// take returns the fault that strikes at the next reply with that xid, or nil.
func (p pending) take(xid int32) *Fault {
	all := p[xid]
	if len(all) == 0 {
		return nil
	}
	if p[xid] = all[1:]; len(all) == 1 {
		delete(p, xid)
	}
	return all[0]
}

func (c *proxyConn) serve() {
	defer func() {
		c.end()
		c.proxy.mu.Lock()
		delete(c.proxy.conns, c)
		c.proxy.mu.Unlock()
	}()
	if c.proxy.swallows(c, toServer) {
		// The connection begins muted: the server never receives it.
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(io.Discard, c.client) })
		<-c.gone
		wg.Wait()
		return
	}
	server, err := c.dial()
	if err != nil {
		return
	}
	c.mu.Lock()
	c.server = server
	c.mu.Unlock()
	select {
	case <-c.gone: // cut before the server connection was stored
		return
	default:
	}
	var wg sync.WaitGroup
	if c.proxy.bytes {
		wg.Go(func() { c.copy(server, c.client, toServer) })
		wg.Go(func() { c.copy(c.client, server, toClient) })
	} else {
		wg.Go(c.requests)
		wg.Go(c.replies)
	}
	wg.Wait()
}

// dial connects to the server, unless the client closes its connection first.
func (c *proxyConn) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		select {
		case <-c.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	return c.door.network.DialContext(ctx, "tcp", c.proxy.targetOf(c.door))
}

// copy forwards bytes of an unknown protocol.
func (c *proxyConn) copy(to, from net.Conn, d direction) {
	defer c.lost(d)
	c.proxy.mu.Lock()
	greeting := c.proxy.greeting
	c.proxy.mu.Unlock()
	if d == toServer && greeting != nil {
		hello, err := greeting(from)
		if err != nil {
			return
		}
		if c.isGone() || c.proxy.swallows(c, d) {
			hello = nil
		}
		if _, err := to.Write(hello); err != nil {
			return
		}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if c.isGone() || c.proxy.swallows(c, d) {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut ends the connection to the client at once. To the server it closes only the writing side, and
// reads the rest: closing with unread replies would reset the connection, and the server might drop
// requests that it has received and not read.
func (c *proxyConn) cut() {
	c.once.Do(func() {
		close(c.gone)
		c.client.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.server != nil {
			_ = c.server.(interface{ CloseWrite() error }).CloseWrite()
			_ = c.server.SetDeadline(time.Now().Add(time.Second)) // the server may be paused
		}
	})
}

// end cuts, and stops waiting for the server.
func (c *proxyConn) end() {
	c.cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		c.server.Close()
	}
}

func (c *proxyConn) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// lost ends a direction after its read failed. While the direction is muted, the other end is not
// closed before Unmute.
func (c *proxyConn) lost(d direction) {
	if !c.isGone() && c.proxy.swallows(c, d) {
		<-c.gone
	}
	c.cut()
}

func (c *proxyConn) requests() {
	defer c.lost(toServer)
	from := bufio.NewReader(c.client)
	for first := true; ; first = false {
		body, err := jute.ReadFrame(from)
		if err != nil {
			return
		}
		if c.proxy.swallows(c, toServer) {
			continue
		}
		r := connectRequest()
		if !first {
			r = parseRequest(body)
		}
		c.proxy.onRequest(r)
		if c.isGone() || !c.request(r, body) {
			return
		}
	}
}

// request forwards a packet, or applies its fault. It returns false if the connection has ended.
func (c *proxyConn) request(r Request, body []byte) bool {
	f := c.proxy.struck(r)
	var late *Fault // strikes at the reply
	if f != nil {
		switch f.action.verb {
		case cutBefore:
			c.cut()
			f.fire()
			return false
		case loseRequest:
			c.proxy.lose(c, toServer)
			f.fire()
			return true
		case holdRequest:
			if !f.hold(c.gone) {
				return false
			}
		case answer:
			c.await(r, f)
			return jute.WriteFrame(c.server, readOfRoot(r.xid)) == nil
		case cutOnSend, cutAfterCommit, holdReply, loseReply: // the reply may come before the cut
			late = f
		}
	}
	c.await(r, late)
	c.proxy.count(r) // before the server can answer: a test may check the count then
	if err := jute.WriteFrame(c.server, body); err != nil {
		return false
	}
	if f != nil && f.action.verb == cutOnSend {
		c.cut()
		f.fire()
		return false
	}
	return true
}

func (c *proxyConn) await(r Request, f *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Is(ConnectOp) {
		c.handshake = f
	} else {
		c.pending.add(r.xid, f)
	}
}

func (c *proxyConn) replies() {
	defer c.lost(toClient)
	from := bufio.NewReader(c.server)
	for first := true; ; first = false {
		body, err := jute.ReadFrame(from)
		if err != nil {
			return
		}
		if first {
			c.proxy.welcomed(body)
		}
		if c.isGone() {
			c.tooLate(first, body)
			continue
		}
		if c.proxy.swallows(c, toClient) {
			continue
		}
		if f := c.answered(first, body); f != nil {
			switch f.action.verb {
			case holdReply:
				if !f.hold(c.gone) {
					continue
				}
			case loseReply:
				c.proxy.lose(c, toClient)
				f.fire()
				continue
			case answer:
				body = withCode(body, f.action.code)
				f.fire()
			default:
				c.cut()
				f.fire()
				continue
			}
		}
		if !first && replyXid(body) == jute.XidEvent {
			c.proxy.notifications.Add(1)
		}
		if err := jute.WriteFrame(c.client, body); err != nil {
			c.cut()
		}
	}
}

// tooLate fires a fault that waits for this reply: the server has executed the request, and the
// client has closed the connection.
func (c *proxyConn) tooLate(first bool, body []byte) {
	if f := c.answered(first, body); f != nil {
		f.fire()
	}
}

// answered returns the fault that waits for this reply, or nil.
func (c *proxyConn) answered(first bool, body []byte) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.handshake
	if first {
		c.handshake = nil
	} else {
		f = c.pending.take(replyXid(body))
	}
	if f != nil && f.canceled.Load() && f.action.verb != answer {
		return nil
	}
	if f != nil {
		f.reply = body
	}
	return f
}

func replyXid(body []byte) int32 {
	d := jute.Decoder{Rest: body}
	return d.Int32()
}

// readOfRoot is a request that asks whether the root exists.
func readOfRoot(xid int32) []byte {
	body := jute.AppendInt32(jute.AppendInt32(nil, xid), jute.OpExists)
	return jute.AppendBool(jute.AppendText(body, "/"), false)
}

// withCode turns a reply into a failed reply: it keeps xid and zxid, and drops the body.
func withCode(reply []byte, code int32) []byte {
	const ids = 4 + 8
	if len(reply) < ids {
		return reply
	}
	return jute.AppendInt32(reply[:ids:ids], code)
}
