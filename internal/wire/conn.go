package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/sessionfile"
)

// ErrNoAnswer is matched by the error of a call that returns because its ctx is canceled, if no
// server has answered.
var ErrNoAnswer = errors.New("no answer from ZooKeeper")

// A Conn is a connection to an ensemble: a zk.Conn, which Connect makes, and what this package
// adds. go-zookeeper calls the Conn to dial, to log and to report session events.
type Conn struct {
	*state
	settings
	client  *zk.Conn
	timeout time.Duration // asked for in each new session
	hosts   *hosts

	ready    chan struct{}   // receives a value when there is a session
	refusal  chan error      // receives the error when the servers have refused the credentials of SASL
	returned atomic.Bool     // Connect has returned the Conn
	events   context.Context // done when Connect has failed: no session event is reported after that
	failed   context.CancelFunc
	work     sync.WaitGroup // the goroutine that drains go-zookeeper's events

	logged sync.Map     // the messages that Printf does not log again now
	zxid   atomic.Int64 // in the last reply of this session; 0: none. See takeZxid

	// Dropped reports whether the server, being overloaded, has dropped the last request. Pings do
	// not count.
	Dropped atomic.Bool

	// moving has a value while SetServers, Rebalance or Close runs. A mutex would stop the clock of
	// a synctest bubble.
	moving         chan struct{}
	moves          context.Context // done when Close has begun, which ends the attempt of a move
	stopMoves      context.CancelFunc
	closed         bool        // Close has ended go-zookeeper; guarded by moving
	closeConfirmed atomic.Bool // a server has answered the request to end the session

	file    *sessionfile.File       // locked; nil: none
	written *[]string               // the servers in it
	own     atomic.Pointer[Session] // the last session that was granted; nil: none was

	// state.mu guards what follows.
	current *packetConn // nil before the first
	next    *packetConn // of a planned move, until go-zookeeper dials; nil: none
	beats   beats
	xid     int32 // of the last request of a packetConn's own
	// credentials says that go-zookeeper has sent credentials. So it sends them again on each later
	// connection.
	credentials bool
}

func newConn(servers []string, timeout time.Duration, s settings) *Conn {
	c := &Conn{
		state:    newState(time.Now),
		settings: s,
		timeout:  timeout,
		ready:    make(chan struct{}, 1),
		refusal:  make(chan error, 1),
		moving:   make(chan struct{}, 1),
		xid:      ownXids,
	}
	for i := range c.beats.timers {
		c.beats.timers[i] = time.AfterFunc(math.MaxInt64, c.beat)
		c.beats.timers[i].Stop()
	}
	c.moves, c.stopMoves = context.WithCancel(c.quit)
	c.events, c.failed = context.WithCancel(context.Background())
	c.hosts = newHosts(c.quit, servers, timeout)
	c.hosts.planned = c.planned
	if c.settings.dial == nil {
		c.settings.dial = new(net.Dialer).DialContext
	} else {
		c.hosts.resolve = nil
	}
	return c
}

// Client returns go-zookeeper's connection, which has the session of the Conn.
func (c *Conn) Client() *zk.Conn { return c.client }

// State returns the state of the last session event.
func (c *Conn) State() zk.State { return c.client.State() }

// Server returns the server of the present or of the last connection.
func (c *Conn) Server() string { return c.client.Server() }

// dial is go-zookeeper's zk.Dialer. It ignores go-zookeeper's timeout, which is the same for all
// sessions and servers.
func (c *Conn) dial(network, server string, _ time.Duration) (net.Conn, error) {
	c.hangUp() // go-zookeeper does not close its connection when the session has expired
	conn, err := c.takeNext(server), error(nil)
	if conn == nil {
		if sleep(c.quit, c.hosts.pause()) != nil {
			return nil, net.ErrClosed
		}
		conn, err = c.reach(network, server)
	}
	c.refused(err)
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

// planned returns the server of a planned move, if go-zookeeper has not connected to it yet.
func (c *Conn) planned() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		return c.next.server
	}
	return ""
}

// takeNext returns the connection of a planned move to a server. If that move was to another
// server, which has gone from the list meanwhile, it closes the connection and returns nil.
func (c *Conn) takeNext(server string) *packetConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.next
	if c.next = nil; next != nil && next.server != server {
		next.Conn.Close()
		return nil
	}
	return next
}

// reach connects to one address of the server that Next has returned, within the limit that hosts
// sets.
func (c *Conn) reach(network, server string) (*packetConn, error) {
	sasl, err := c.startSASL(c.quit, server)
	if err != nil {
		return nil, c.at(server, err)
	}
	address, limit, err := c.hosts.address()
	if err != nil {
		return nil, err
	}
	conn, err := c.open(c.quit, network, server, address, limit, sasl)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		c.hosts.hung()
	}
	return conn, err
}

// open connects to an address of a server within the limit.
func (c *Conn) open(ctx context.Context, network, server, address string, limit time.Duration, sasl SASLExchange) (*packetConn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := c.settings.dial(context.WithValue(ctx, dialing{}, c), network, address)
	if err == nil && conn == nil {
		err = errors.New("the dialer returned no connection")
	}
	if err == nil && c.tls != nil {
		conn, err = c.secure(ctx, conn, server)
	}
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, c.at(address, err)
	}
	p := newPacketConn(c, conn, server, address, limit)
	p.sasl = sasl
	return p, nil
}

// secure begins TLS. It checks the certificate against the name that was given to Connect.
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
		return nil, fmt.Errorf("TLS handshake: %w", err) // a server without TLS closes the connection: EOF
	}
	return secured, nil
}

// event is go-zookeeper's zk.EventCallback. go-zookeeper may hold mutexes while it calls event. So
// event must neither block nor call go-zookeeper.
func (c *Conn) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	for _, l := range c.listeners {
		l.notify(c.events, e)
	}
	switch e.State {
	case zk.StateHasSession, zk.StateExpired: // StateExpired comes first only if the session to resume is over
		select {
		case c.ready <- struct{}{}:
		default:
		}
	case zk.StateDisconnected:
		c.mu.Lock()
		c.disconnect()
		c.mu.Unlock()
		if c.IsClosed() {
			// go-zookeeper answers all requests in its queue and ends. Close may be about to put
			// its last request into the queue. If the request came after go-zookeeper's end, Close
			// would wait a second.
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// Unanswered returns when the oldest unanswered request was sent, or the zero time if there is
// none.
func (c *Conn) Unanswered() (oldest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		for _, p := range c.current.sent {
			if oldest.IsZero() || p.at.Before(oldest) {
				oldest = p.at
			}
		}
	}
	return oldest
}

// Kept describes what the present connection keeps for the locks: requests under way, watches that
// somebody waits for, and heartbeats.
func (c *Conn) Kept() (kept []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.beats.wanted {
		kept = append(kept, "heartbeats")
	}
	p := c.current
	if p == nil {
		return kept
	}
	own := len(p.queue)
	for _, r := range p.sent {
		if r.answered != nil {
			own++
		}
	}
	if own > 0 {
		kept = append(kept, fmt.Sprintf("%d requests", own))
	}
	for _, watches := range p.watches {
		for _, w := range watches {
			if len(w.bells) > 0 {
				kept = append(kept, "a waiter of "+w.Path)
			}
		}
	}
	return kept
}

type dialing struct{}

// Dialing returns the Conn that calls a dialer with ctx; nil: none does. Package zktest reports and
// closes the connections that a test leaves open. Otherwise the test's synctest bubble would panic.
func Dialing(ctx context.Context) *Conn {
	c, _ := ctx.Value(dialing{}).(*Conn)
	return c
}

var errUnconfirmed = errors.New("zklocks: close: no server has answered: the session, and its nodes, may stay until its timeout is over")

// Close closes the connection and returns an error if no server has ended the session. A second
// call waits for the first and returns nil. Before Connect has returned, Close does nothing.
func (c *Conn) Close() error {
	if !c.returned.Load() {
		return nil
	}
	c.stopMoves()
	c.moving <- struct{}{} // between two connections go-zookeeper could not end the session
	defer func() { <-c.moving }()
	if c.closed {
		return nil
	}
	c.closed = true
	session := c.Session() // 0: the program has closed the zk.Conn
	c.end()
	c.putAway()
	if session == 0 || c.closeConfirmed.Load() {
		return nil
	}
	return errUnconfirmed
}

// end ends go-zookeeper. Its steps: each hold is lost, and all calls of the locks end; go-zookeeper
// sends its last request, which ends the session, and has a second for the answer; then the network
// connection is closed. The holds are lost first, because a server that does not read may never
// take the last request.
//
// Without a connection go-zookeeper does not notice that it was closed. It would dial forever, and
// no goroutine would take its last request from the queue. So end closes the network connection,
// which ends the attempt, and waits until hosts.Next has ended go-zookeeper.
func (c *Conn) end() {
	up := c.Down().IsZero() // before markClosed, which sets Down
	c.markClosed()
	if !up {
		c.hangUp()
		select {
		case <-c.hosts.stopped.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	c.client.Close()
	c.hangUp() // or go-zookeeper would send its last request when it can, and continue
	c.takeNext("")
}

// hangUp closes the network connection.
func (c *Conn) hangUp() {
	c.mu.Lock()
	p := c.current
	c.mu.Unlock()
	if p != nil {
		p.Close()
	}
}
