package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// ErrNoAnswer is matched by the error of a call that no server has answered when its ctx ended.
var ErrNoAnswer = errors.New("no answer from ZooKeeper")

// A Conn is a connection to an ensemble, as Connect makes it: the zk client, and what this package
// adds. The client dials by the Conn and reports its session events to it.
type Conn struct {
	*zk.Conn
	*state
	Servers []string // that the connection may use, as given to Connect

	settings
	timeout time.Duration // that each new session is asked for
	hosts   *hosts

	ready    chan struct{} // has a value when there is the first session
	returned atomic.Bool   // by Connect

	failed chan struct{} // closed when Connect has failed: no session event is reported any more
	logged sync.Map      // the messages that Printf does not log again now

	work            sync.WaitGroup // calls of Connect itself, and of closed
	zxid            atomic.Int64   // of the last reply in this session; 0: none. See takeZxid
	noRemoveWatches atomic.Bool    // a server does not know RemoveWatches

	// Dropped says that the server has dropped the last request, other than a ping, because of its
	// load.
	Dropped atomic.Bool

	closing        atomic.Bool
	closed         chan struct{} // closed when Close has returned
	closeConfirmed atomic.Bool   // a server has answered the request to end the session

	// Guarded by state.mu.
	current *packetConn
	beats   beats
	xid     int32 // of the packetConns' last own request
}

func newConn(servers []string, timeout time.Duration, s settings) *Conn {
	c := &Conn{
		state:    newState(time.Now),
		Servers:  servers,
		settings: s,
		timeout:  timeout,
		ready:    make(chan struct{}, 1),
		failed:   make(chan struct{}),
		closed:   make(chan struct{}),
		xid:      ownXids,
	}
	c.beats = newBeats(c.beat)
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
func (c *Conn) dial(network, server string, _ time.Duration) (net.Conn, error) {
	c.hangUp() // the client does not do that when the session has expired
	if err := sleep(c.quit, c.hosts.pause()); err != nil {
		return nil, net.ErrClosed
	}
	conn, err := c.open(network, server)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.note(err)
		return nil, err
	case c.IsClosed():
		conn.Conn.Close()
		return nil, net.ErrClosed
	}
	c.current = conn
	return conn, nil
}

// open connects to one address of the server, within the limit that hosts sets.
func (c *Conn) open(network, server string) (*packetConn, error) {
	address, limit, err := c.hosts.address()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.quit, limit)
	defer cancel()
	conn, err := c.settings.dial(context.WithValue(ctx, dialing{}, c), network, address)
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
	return newPacketConn(c, conn, address, limit), nil
}

// secure begins TLS. It checks the name that the user gave, as only that one is in a certificate.
func (c *Conn) secure(ctx context.Context, conn net.Conn, server string) (net.Conn, error) {
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
		return nil, fmt.Errorf("TLS handshake: %w", err) // a server without TLS just closes the connection
	}
	return secured, nil
}

// event is the client's zk.EventCallback. The client waits for it, at times with its mutexes held,
// so it must neither block nor call the connection.
func (c *Conn) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	for _, l := range c.events {
		l.notify(e, c.failed)
	}
	switch e.State {
	case zk.StateHasSession:
		select {
		case c.ready <- struct{}{}:
		default:
		}
	case zk.StateDisconnected:
		c.mu.Lock()
		c.disconnect()
		c.mu.Unlock()
		if c.IsClosed() {
			// The client now answers everything in its queue and ends. Close may be about to put
			// its last request there, and would wait a second for the answer if the request came
			// too late.
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// Unanswered returns when the oldest request was sent that the server has not answered, or the zero
// time if there is none.
func (c *Conn) Unanswered() (oldest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return oldest
	}
	for _, p := range c.current.sent {
		if oldest.IsZero() || p.at.Before(oldest) {
			oldest = p.at
		}
	}
	return oldest
}

type dialing struct{}

// Dialing returns the Conn for which a dialer is called with ctx, nil if there is none. Package
// zktest reports and closes the connections that a test leaves open: the synctest bubble of the
// test would panic.
func Dialing(ctx context.Context) *Conn {
	c, _ := ctx.Value(dialing{}).(*Conn)
	return c
}

var errUnconfirmed = errors.New("zklocks: close: no server has answered: the session, and its nodes, may stay until its timeout is over")

// Close closes the connection and reports whether a server has ended its session. From the second
// call on it returns nil, when the first has returned. It does nothing before Connect has returned.
func (c *Conn) Close() error {
	if !c.returned.Load() {
		return nil
	}
	if c.closing.Swap(true) {
		<-c.closed // not a mutex, which stops the clock of a synctest bubble
		return nil
	}
	defer close(c.closed)
	session := c.Session() // 0 if the client was closed before
	c.end()
	if session == 0 || c.closeConfirmed.Load() {
		return nil
	}
	return errUnconfirmed
}

// end closes the client. It declares the holds lost first: the client may be stuck in front of a
// server that does not read, and then cannot send its last request.
//
// A client without a connection does not check whether it was closed. It would dial forever, and
// put its last request where no goroutine takes it. So abort ends its attempt, and hosts.Next ends
// the client, which takes a goroutine switch or two.
func (c *Conn) end() {
	up := c.Down().IsZero() // before markClosed, which sets Down
	c.markClosed()
	if !up {
		c.hangUp()
		select {
		case <-c.hosts.stopped:
		case <-time.After(100 * time.Millisecond):
		}
	}
	c.Conn.Close()
	c.hangUp() // a client that has not sent its request would go on when it can send again
}

// hangUp closes the network connection.
func (c *Conn) hangUp() {
	c.mu.Lock()
	w := c.current
	c.mu.Unlock()
	if w != nil {
		w.Close()
	}
}
