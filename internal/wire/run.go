package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// run is the Conn's goroutine. It connects and reads, again and again, until the Conn is closed. The
// functions of a connection's life follow in their order.
func (c *Conn) run() {
	for c.quit.Err() == nil {
		p, err := c.dial()
		if err == nil {
			err = p.shakeHands()
		}
		if err != nil {
			c.missed(p, err)
			continue
		}
		c.arrived(p)
		c.left(p, p.serve())
	}
	if zk.State(c.reported.Load()) != zk.StateDisconnected {
		c.event(zk.StateDisconnected, "")
	}
}

// dial returns a connection without a session: the connection of a move, or a new one to the next
// server.
func (c *Conn) dial() (p *packetConn, err error) {
	c.mu.Lock()
	p, c.next = c.next, nil
	if p != nil {
		c.current = p
	}
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	server := c.hosts.pick()
	c.event(zk.StateConnecting, server)
	if sleep(c.quit, c.hosts.pause()) != nil {
		return nil, net.ErrClosed
	}
	address, limit, err := c.hosts.address()
	if err == nil {
		p, err = c.open(c.quit, server, address, limit)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.IsClosed() { // end has not seen p
		p.Conn.Close()
		return nil, net.ErrClosed
	}
	c.current = p
	return p, nil
}

// open connects to an address of a server within the limit. The SASL mechanism has its own.
func (c *Conn) open(ctx context.Context, server, address string, limit time.Duration) (*packetConn, error) {
	sasl, err := c.startSASL(ctx, server)
	if err != nil {
		return nil, c.at(server, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dialed, err := c.settings.dial(context.WithValue(ctx, dialing{}, c), "tcp", address)
	conn := dialed
	switch {
	case err == nil && conn == nil:
		err = errors.New("the dialer returned no connection")
	case err == nil && c.tls != nil:
		if conn, err = c.secure(ctx, dialed, server); err != nil {
			dialed.Close()
		}
	}
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, c.at(address, err)
	}
	return newPacketConn(c, conn, server, address, limit, sasl), nil
}

// secure begins TLS. It checks the certificate against the name that was given to Connect.
func (c *Conn) secure(ctx context.Context, conn net.Conn, server string) (net.Conn, error) {
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err) // a server without TLS closes the connection: EOF
	}
	return secured, nil
}

// shakeHands asks for the session, or for a new session if there is none, and authenticates it. It
// returns zk.ErrSessionExpired if the server says that the session is over.
func (p *packetConn) shakeHands() error {
	p.conn.Printf("connected to %s", p.server)
	p.conn.event(zk.StateConnected, p.server)
	asked := time.Now()
	p.Conn.SetDeadline(asked.Add(p.limit))
	p.Conn.Write(p.conn.hello()) // if it fails, so does the read
	s, granted, err := p.readWelcome()
	if err == nil && s.ID == 0 {
		return zk.ErrSessionExpired
	}
	if err == nil {
		err = p.admit(s)
	}
	if err != nil {
		return p.conn.at(p.address, err)
	}
	return p.begin(s.ID, granted, asked)
}

// hello returns the request for the session, or for a new session. It states the zxid of the last
// reply: a server that has not applied what this process has read must refuse the session.
func (c *Conn) hello() []byte {
	zxid, timeout, s := c.zxid.Load(), c.Timeout(), Session{Password: make([]byte, passwordSize)}
	switch {
	case c.Session() != 0:
		s = *c.Own()
	case c.resume != nil:
		// A server that lags behind may serve it, because the leader knows the session. It asks for
		// the shortest timeout, by which the session ends if the server receives nothing more.
		zxid, timeout, s = 0, time.Millisecond, *c.resume
	default:
		zxid, timeout = 0, c.timeout
	}
	b := encode(nil, int32(0), zxid, int32(timeout.Milliseconds()), s.ID, s.Password)
	return append(encode(nil, int32(len(b))), b...)
}

// readWelcome reads the answer to the handshake. Session 0 means that the session is over.
func (p *packetConn) readWelcome() (s Session, granted time.Duration, err error) {
	err = p.readFrame(minHandshake, maxHandshake)
	switch {
	case string(p.buf[:lengthSize]) == "HTTP":
		err = errors.New("the server speaks HTTP: this is not ZooKeeper's client port")
	case err == nil:
		return welcome(p.buf[lengthSize:])
	default:
		err = p.unanswered(err, "accepted the connection, but did not answer the handshake", "closed the connection during the handshake "+
			"(not part of a quorum? TLS expected? maxClientCnxns reached? data older than the client has seen?)")
	}
	return s, 0, err
}

// admit authenticates a session that a server has granted or resumed, and records it, before
// anything uses it. On an error the connection fails. The caller does not hold conn.mu, which a
// server that hangs or a slow disk would block.
func (p *packetConn) admit(s Session) error {
	if p.sasl != nil {
		if err := p.authenticate(); err != nil {
			return err
		}
	}
	p.conn.record(s.ID, s.Password)
	return p.sendCredentials()
}

// begin makes p the connection of the session.
func (p *packetConn) begin(session int64, granted time.Duration, asked time.Time) error {
	c := p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.phase != shaking: // Close has closed it
		return net.ErrClosed
	case !slices.Contains(c.Servers(), p.server): // SetServers has replaced them during the attempt
		return fmt.Errorf("%s is none of the servers any more", p.server)
	}
	p.Conn.SetDeadline(time.Time{})
	p.phase = running
	c.begin(session, granted, asked)
	p.startSending()
	c.beatAt(time.Now())
	c.pings.Reset(c.Timeout() / 3)
	return nil
}

// arrived reports a connection with a session.
func (c *Conn) arrived(p *packetConn) {
	c.hosts.arrived(p.server, c.Timeout())
	c.Printf("session: id=%#x, timeout=%d", uint64(c.Session()), c.Timeout().Milliseconds())
	c.event(zk.StateHasSession, p.server)
}

// serve reads until the connection ends. A server that sends nothing for 2T/3 has gone: it answers
// pings, which leave every T/3.
func (p *packetConn) serve() error {
	for {
		patience := p.conn.Timeout() * 2 / 3
		p.Conn.SetReadDeadline(time.Now().Add(patience))
		err := p.readFrame(replyHeader, maxReply)
		if err == nil {
			err = p.reply(p.buf)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("the server has sent nothing for %v", patience)
		case err != nil:
			return err
		}
	}
}

// missed records why an attempt has failed; p is nil if no connection was opened.
func (c *Conn) missed(p *packetConn, err error) {
	expired := err == zk.ErrSessionExpired
	if p != nil {
		p.fail()
	}
	c.mu.Lock()
	if expired {
		c.zxid.Store(0)
		c.expire()
	} else {
		c.note(err)
	}
	c.mu.Unlock()
	if p == nil {
		c.Printf("failed to connect to %s: %v", c.hosts.last.given, err)
	} else {
		c.Printf("no session: %v", err)
	}
	switch {
	case expired:
		c.event(zk.StateExpired, p.server)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		c.hosts.hung()
	}
	if p != nil {
		c.event(zk.StateDisconnected, p.server)
	}
	c.refused(err)
}

// left closes a connection that had the session.
func (c *Conn) left(p *packetConn, err error) {
	p.fail()
	c.mu.Lock()
	moves := c.next != nil
	c.mu.Unlock()
	if !moves {
		c.Printf("connection lost: %v", err)
	}
	c.event(zk.StateDisconnected, p.server)
}

// fail ends the connection.
func (p *packetConn) fail() {
	p.conn.mu.Lock()
	p.end()
	p.conn.mu.Unlock()
	p.Conn.Close()
}

// end answers the requests of the connection, and fires its watches; caller holds conn.mu.
func (p *packetConn) end() {
	c := p.conn
	if p.phase == broken {
		return
	}
	p.phase = broken
	c.disconnect()
	p.watches.end()
	sent, queue := p.sent, p.queue
	p.watches, p.sent, p.queue = nil, nil, nil
	for _, r := range sent {
		r.lost(zk.ErrConnectionClosed)
	}
	for _, r := range queue {
		p.unsent(r)
	}
	p.drain()
	if c.guest != nil {
		c.guest.lost(p)
	}
}

// event reports a session event; only run calls it.
func (c *Conn) event(s zk.State, server string) {
	c.reported.Store(int32(s))
	for _, l := range c.listeners {
		l.notify(c.events, zk.Event{Type: zk.EventSession, State: s, Server: server})
	}
	if s == zk.StateHasSession || s == zk.StateExpired { // StateExpired comes first only if the session to resume is over
		ring(c.ready)
	}
}

// at adds the address to the error of an attempt, unless there is only one server, because the
// error of the call names the servers.
func (c *Conn) at(address string, err error) error {
	if e, ok := err.(*net.OpError); ok {
		err = e.Err // without the addresses
	}
	if slices.Equal(c.Servers(), []string{address}) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}
