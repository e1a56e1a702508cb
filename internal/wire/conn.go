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

	quit  context.Context // done when the connection is closed
	leave context.CancelFunc
	ready chan struct{} // closed when there is the first session
	begun sync.Once

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
	returned bool // by Connect
	current  *packetConn
	beats    beats
}

func newConn(servers []string, timeout time.Duration, s settings) *Conn {
	c := &Conn{
		state:    newState(time.Now),
		Servers:  servers,
		settings: s,
		timeout:  timeout,
		ready:    make(chan struct{}),
		failed:   make(chan struct{}),
		closed:   make(chan struct{}),
	}
	c.quit, c.leave = context.WithCancel(context.Background())
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
		c.begun.Do(func() { close(c.ready) })
	case zk.StateDisconnected:
		c.disconnect()
		if c.quit.Err() != nil {
			// The client now answers everything in its queue and ends. Close may be about to put
			// its last request there, and would wait a second for the answer if the request came
			// too late.
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// Unanswered returns when the oldest request was sent that the server has not answered, or the zero
// time if there is none.
func (c *Conn) Unanswered() time.Time {
	c.mu.Lock()
	w := c.current
	c.mu.Unlock()
	if w == nil {
		return time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending.oldest()
}

// connected is called by a packetConn that holds its mu, before the client knows.
func (c *Conn) connected(session int64, granted time.Duration, asked time.Time) {
	c.begin(session, granted, asked)
	c.hosts.timeout = c.Timeout() // the shortest in this session
	c.beatNow()
}

// ended is called by a packetConn that has ended, before the client knows.
func (c *Conn) ended(w *packetConn, hadSession bool, err error) {
	if !hadSession {
		c.note(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w {
		c.disconnectLocked()
	}
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
	c.mu.Lock()
	returned := c.returned
	c.mu.Unlock()
	if !returned {
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
	up := c.Down().IsZero() // before beginClose, which sets Down
	c.beginClose()
	c.tellClosed()
	if !up {
		c.abort()
		timer := time.NewTimer(100 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-c.hosts.stopped:
		case <-timer.C:
		}
	}
	c.Conn.Close()
	c.abort() // a client that has not sent its request would go on when it can send again
}

// abort ends the client's attempts and calls that hang.
func (c *Conn) abort() {
	c.beginClose()
	c.tellClosed()
	c.mu.Lock()
	w := c.current
	c.mu.Unlock()
	if w != nil {
		w.abort()
	}
}

// beginClose is called when the client is about to end the session, or has been closed.
func (c *Conn) beginClose() {
	c.markClosed()
	c.leave()
}

// refused delays a server's refusal of credentials that were accepted before. When the client reads
// the refusal it ends the connection and connects again at once; Connect fails. If the client has
// watches, each such connection also leaves one of the client's goroutines, which waits with the
// request that sets them again until a server accepts the credentials.
func (c *Conn) refused(address string) {
	c.mu.Lock()
	returned := c.returned
	c.mu.Unlock()
	if !returned {
		return
	}
	c.note(c.at(address, errRefused))
	sleep(c.quit, refusalPause)
}

// note records why an attempt failed, for the errors of calls that end meanwhile.
func (c *Conn) note(err error) {
	if c.quit.Err() != nil || errors.Is(err, net.ErrClosed) {
		return
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.failure = err
}

// at adds the address to the error of an attempt, unless there is only one server: the
// caller that reports the error names the servers.
func (c *Conn) at(address string, err error) error {
	if e, ok := err.(*net.OpError); ok {
		err = e.Err // without the addresses
	}
	if slices.Equal(c.Servers, []string{address}) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
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
