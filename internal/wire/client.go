package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
)

// client holds what belongs to one *zk.Conn: its dialer, its event callback, and what its
// packetConns report.
type client struct {
	settings
	timeout time.Duration // that each new session is asked for
	link    *liveness.Link
	hosts   *hosts

	quit  context.Context // done when the user has closed the connection
	leave context.CancelFunc
	ready chan struct{} // closed when there is the first session
	begun sync.Once

	work            sync.WaitGroup // calls of Connect itself, and of closed
	zxid            atomic.Int64   // of the last reply in this session; 0: none. See takeZxid
	noRemoveWatches atomic.Bool    // a server does not know RemoveWatches

	mu      sync.Mutex
	conn    *zk.Conn // nil until Connect returns it
	current *packetConn
}

func newClient(servers []string, timeout time.Duration, s settings) *client {
	c := &client{
		settings: s,
		timeout:  timeout,
		link:     liveness.New(servers...),
		ready:    make(chan struct{}),
	}
	c.link.WatchAll, c.link.End = c.watchAll, c.end
	c.quit, c.leave = context.WithCancel(context.Background())
	c.hosts = newHosts(c.quit, servers, timeout)
	if c.settings.dial == nil {
		c.settings.dial = new(net.Dialer).DialContext
	} else {
		c.hosts.resolve = nil
	}
	return c
}

// dial is the client's zk.Dialer. It ignores the client's own timeout, which depends neither on the
// session's nor on the server.
func (c *client) dial(network, server string, _ time.Duration) (net.Conn, error) {
	c.mu.Lock()
	last := c.current
	c.mu.Unlock()
	if last != nil {
		last.Close() // the client does not close it when the session has expired
	}
	if err := sleep(c.quit, c.hosts.pause()); err != nil {
		return nil, net.ErrClosed
	}
	conn, err := c.open(network, server)
	if err != nil {
		c.note(err)
		return nil, err
	}
	c.mu.Lock()
	c.current = conn
	c.mu.Unlock()
	if c.quit.Err() != nil {
		conn.Close()
		return nil, net.ErrClosed
	}
	return conn, nil
}

// open connects to one address of the server, within the limit that hosts sets.
func (c *client) open(network, server string) (*packetConn, error) {
	address, limit, err := c.hosts.address()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.quit, limit)
	defer cancel()
	began := time.Now()
	conn, err := c.settings.dial(liveness.WithCloser(ctx, c.close), network, address)
	if err == nil && conn == nil {
		err = errors.New("the dialer returned no connection")
	}
	if err == nil && c.tls != nil {
		conn, err = c.secure(ctx, conn, server)
	}
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded || errors.Is(err, os.ErrDeadlineExceeded) {
			c.hosts.hung()
		}
		return nil, c.at(address, err)
	}
	w := newPacketConn(c, conn, address, limit)
	w.dialed = time.Since(began)
	return w, nil
}

// secure begins TLS. It checks the name that the user gave, as only that one is in a certificate.
func (c *client) secure(ctx context.Context, conn net.Conn, server string) (net.Conn, error) {
	config, err := c.tls()
	if err != nil {
		conn.Close()
		return nil, err
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS handshake: %w", bare(err)) // a server without TLS just closes the connection
	}
	return secured, nil
}

// event is the client's zk.EventCallback. The client waits for it, at times with its mutexes held,
// so it must neither block nor call the connection.
func (c *client) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	for _, t := range c.events {
		t.notify(e)
	}
	switch e.State {
	case zk.StateHasSession:
		c.begun.Do(func() { close(c.ready) })
	case zk.StateDisconnected:
		c.link.Disconnected()
		if c.quit.Err() != nil {
			// The client now answers everything in its queue and ends. Close may be about to put
			// its last request there, and would wait a second for the answer if the request came
			// too late.
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// connected is called by a packetConn that holds its mu, before the client knows.
func (c *client) connected(session int64, granted time.Duration, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link.Connected(session, granted, asked)
	c.hosts.granted(c.link.Timeout()) // the shortest in this session
}

// expired is called by a packetConn that holds its mu, before the client knows.
func (c *client) expired() {
	c.zxid.Store(0)
	c.link.Expired()
}

// failed is called by a packetConn that has ended, before the client knows.
func (c *client) failed(w *packetConn, hadSession bool, err error) {
	if !hadSession {
		c.note(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w {
		c.link.Disconnected()
	}
}

// close closes the connection for a dialer whose caller does not close it.
func (c *client) close() {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		c.end(conn)
	}
}

// end closes the client. The holders are told first: the client may be stuck in front of a server
// that does not read, and then cannot send its last request.
//
// A client without a connection does not check whether it was closed. It would dial forever, and put
// its last request where no goroutine takes it. So closed ends its attempt, and hosts.Next ends the
// client, which takes a goroutine switch or two.
func (c *client) end(conn *zk.Conn) {
	up := c.link.Down().IsZero() // before beginClose, which sets Down
	c.beginClose()
	c.link.TellClosed()
	if !up {
		c.closed()
		timer := time.NewTimer(100 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-c.hosts.stopped:
		case <-timer.C:
		}
	}
	conn.Close()
	c.closed() // a client that has not sent its request would go on when it can send again
}

// closed ends the client's attempts and calls that hang.
func (c *client) closed() {
	c.beginClose()
	c.link.TellClosed()
	c.mu.Lock()
	w := c.current
	c.mu.Unlock()
	if w != nil {
		w.abort()
	}
}

// beginClose is called when the client is about to end the session, or has been closed.
func (c *client) beginClose() {
	c.link.MarkClosed()
	c.leave()
}

// refused delays a server's refusal of credentials that were accepted before. When the client reads
// the refusal it ends the connection and connects again at once; Connect fails. If the client has
// watches, each such connection also leaves one of the client's goroutines, which waits with the
// request that sets them again until a server accepts the credentials.
func (c *client) refused(address string) {
	c.mu.Lock()
	connecting := c.conn == nil
	c.mu.Unlock()
	if connecting {
		return
	}
	c.note(c.at(address, errRefused))
	sleep(c.quit, refusalPause)
}

// note records why an attempt failed, for the errors of calls that end meanwhile.
func (c *client) note(err error) {
	if c.quit.Err() == nil && !errors.Is(err, net.ErrClosed) {
		c.link.Failed(err)
	}
}

// at adds the address to the error of an attempt. Who reports the error names the servers, so the
// address of the only server is not repeated.
func (c *client) at(address string, err error) error {
	if err = bare(err); slices.Equal(c.link.Servers, []string{address}) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}

// bare removes the addresses that package net adds to an error.
func bare(err error) error {
	if e, ok := err.(*net.OpError); ok && (e.Op == "dial" || e.Op == "read" || e.Op == "write") {
		return e.Err
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
