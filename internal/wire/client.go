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

	"github.com/zklocks/zklocks/internal/liveness"
)

var errClosed = errors.New("zklocks: closed")

// client is all that stands around one *zk.Conn: its dialer, its callback, and what the wires
// report.
type client struct {
	settings
	link  *liveness.Link
	hosts *hosts

	quit  context.Context // done when the user has closed the connection
	leave context.CancelFunc
	gone  chan struct{} // closed when the *zk.Conn has ended
	ready chan struct{} // closed when there is the first session
	begun sync.Once

	work     sync.WaitGroup // calls of Connect itself
	watched  atomic.Bool    // a request of this session has set a watch
	markless atomic.Bool    // a server takes no watch back

	mu       sync.Mutex
	conn     *zk.Conn // nil until the first session
	current  *wire
	up       bool   // the current wire has a session
	idle     bool   // the client has ended its send loop, and not begun another one
	turns    uint64 // counts the changes of idle
	guarded  bool   // guard is running
	lastFail error
	since    int64 // the zxid since which the client may have missed changes of what it watches; 0: none. See rewatch
}

func newClient(servers []string, timeout time.Duration, s settings) *client {
	c := &client{
		settings: s,
		link:     liveness.New(servers...),
		hosts:    newHosts(servers, timeout),
		gone:     make(chan struct{}),
		ready:    make(chan struct{}),
	}
	c.link.WatchesBy(c.watchAll)
	c.quit, c.leave = context.WithCancel(context.Background())
	return c
}

// dial is the client's zk.Dialer. The client's own timeout is ignored: it knows neither the
// session's nor the server.
func (c *client) dial(network, server string, _ time.Duration) (net.Conn, error) {
	c.mu.Lock()
	last := c.current
	c.mu.Unlock()
	if last != nil {
		last.Close() // the client forgets to when the session has expired
	}
	if err := sleep(c.quit, c.hosts.pause()); err != nil {
		return nil, errClosed
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
		return nil, errClosed
	}
	return conn, nil
}

// open connects to one address of the server, within the limit that hosts sets.
func (c *client) open(network, server string) (*wire, error) {
	address, limit, err := c.hosts.address(c.quit, server, c.settings.dial == nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.quit, limit)
	defer cancel()
	dial := c.settings.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(liveness.WithCloser(ctx, c.close), network, address)
	if err == nil && c.tls != nil {
		conn, err = c.secure(ctx, conn, server)
	}
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded || errors.Is(err, os.ErrDeadlineExceeded) {
			c.hosts.fined(address, limit)
		}
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return newWire(c, conn, address, limit), nil
}

// secure begins TLS. The name to check is the one that the user gave, as only that one is in a
// certificate.
func (c *client) secure(ctx context.Context, conn net.Conn, server string) (net.Conn, error) {
	config := c.tls.Clone()
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

// event is the client's zk.EventCallback. The client waits for it, holding locks at times: it must
// neither block nor call the connection.
func (c *client) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	for _, t := range c.events {
		t.tell(e)
	}
	switch e.State {
	case zk.StateHasSession:
		c.begun.Do(func() { close(c.ready) })
	case zk.StateExpired:
		c.expired()
	case zk.StateDisconnected:
		c.resting()
		if c.quit.Err() != nil {
			// The client now answers everything in its queue and ends. Close may be about to put
			// its last request there, and would wait a second for the answer if it came too late.
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// connected is told by a wire, under its mutex, before the client knows.
func (c *client) connected(session int64, granted time.Duration, asked time.Time) {
	c.mu.Lock()
	c.up = true
	c.idle = false
	c.turns++
	c.mu.Unlock()
	c.hosts.granted(granted)
	c.link.Connected(session, granted, asked)
}

func (c *client) expired() {
	c.watched.Store(false) // the client drops its watches with the session
	c.mu.Lock()
	c.since = 0
	c.mu.Unlock()
	c.link.Expired()
}

// failed is told by a wire that has come to its end, before the client knows.
func (c *client) failed(w *wire, hadSession bool, err error) {
	if !hadSession {
		c.note(err)
	}
	c.mu.Lock()
	current := c.current == w
	c.mu.Unlock()
	if current {
		c.down()
	}
}

// down notes that there is no connection. A wire sees it before the client does.
func (c *client) down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost()
}

// lost does it; caller holds mu.
func (c *client) lost() {
	if c.up {
		c.up = false
		c.link.Disconnected()
	}
}

// resting notes that the client sends nothing now, and has somebody look out for a Close.
func (c *client) resting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost()
	if !c.idle {
		c.idle = true
		c.turns++
	}
	c.post()
}

// post starts guard if it is needed; caller holds mu.
func (c *client) post() {
	if c.idle && !c.guarded && c.conn != nil && c.quit.Err() == nil {
		c.guarded = true
		go c.guard(c.conn)
	}
}

// close closes the connection for a dialer that knows of no one else who will.
func (c *client) close() {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// closed notes that the user has closed the connection, and ends what hangs.
func (c *client) closed() {
	c.goodbye()
	c.mu.Lock()
	w := c.current
	c.mu.Unlock()
	if w != nil {
		w.abort()
	}
}

// goodbye is closed for a wire on which the client is just about to end the session.
func (c *client) goodbye() {
	c.link.MarkClosed()
	c.hosts.close()
	c.leave()
}

// note keeps the reason why an attempt failed, for Connect's error.
func (c *client) note(err error) {
	if c.quit.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, errClosed) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastFail = err
}

func (c *client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastFail
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
