package wire

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/sessionfile"
)

// ErrNoAnswer is matched by the error of a call that returns because its ctx is canceled, if no
// server has answered.
var ErrNoAnswer = errors.New("no answer from ZooKeeper")

// A Conn is a connection to an ensemble, with one session at a time. Its goroutine is in run.go.
type Conn struct {
	*state
	settings
	timeout time.Duration // asked for in each new session
	hosts   *hosts

	ready    chan struct{}   // receives a value when there is a session
	refusal  chan error      // receives the error when the servers have refused the credentials
	returned atomic.Bool     // Connect has returned the Conn
	events   context.Context // done when Connect has failed: no session event is reported after that
	failed   context.CancelFunc
	work     sync.WaitGroup // run
	reported atomic.Int32   // the zk.State of the last session event

	logged sync.Map     // the messages that Printf does not log again now
	zxid   atomic.Int64 // in the last reply of this session; 0: none

	// Dropped reports whether the server, being overloaded, has dropped the last request. Pings do
	// not count.
	Dropped atomic.Bool

	// moving has a value while SetServers, Rebalance or Close runs. A mutex would stop the clock of
	// a synctest bubble.
	moving         chan struct{}
	moves          context.Context // done when Close has begun, which ends the attempt of a move
	stopMoves      context.CancelFunc
	closeConfirmed atomic.Bool // a server has answered the request to end the session

	file    *sessionfile.File       // locked; nil: none
	written *[]string               // the servers in it
	own     atomic.Pointer[Session] // the last session that was granted; nil: none was

	making chan struct{} // has a value while Client makes the guest, or Close ends it

	// state.mu guards what follows.
	current     *packetConn // the last; nil before the first
	next        *packetConn // of a move, until run takes it; nil: none
	beats       beats
	pings       *time.Timer
	xid         int32    // of the last request, see nextXid
	credentials [][]byte // the bodies of the requests with which each connection begins: of WithDigestAuth, then of the guest
	guest       guest    // nil: none; written while making has a value
}

func newConn(servers []string, timeout time.Duration, s settings) *Conn {
	c := &Conn{
		state:    newState(time.Now),
		settings: s,
		timeout:  timeout,
		ready:    make(chan struct{}, 1),
		refusal:  make(chan error, 1),
		moving:   make(chan struct{}, 1),
		making:   make(chan struct{}, 1),
		xid:      rand.Int32N(math.MaxInt32),

		credentials: s.digests,
	}
	for i := range c.beats.timers {
		c.beats.timers[i] = stopped(c.beat)
	}
	c.pings = stopped(c.ping)
	c.moves, c.stopMoves = context.WithCancel(c.quit)
	c.events, c.failed = context.WithCancel(context.Background())
	c.hosts = newHosts(c.quit, servers, timeout)
	if c.settings.dial == nil {
		c.settings.dial = new(net.Dialer).DialContext
	} else {
		c.hosts.resolve = nil
	}
	return c
}

// stopped returns a timer that calls f once it has been reset.
func stopped(f func()) *time.Timer {
	t := time.AfterFunc(math.MaxInt64, f)
	t.Stop()
	return t
}

// State returns the state of the last session event.
func (c *Conn) State() zk.State { return zk.State(c.reported.Load()) }

// Server returns the server of the present or of the last connection, as it was given; "": there
// was none.
func (c *Conn) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return ""
	}
	return c.current.server
}

// Silence returns when the connection was lost, if it is down, and otherwise when the oldest
// unanswered request was sent; the zero time: there is none.
func (c *Conn) Silence() (since time.Time, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since = c.down; !since.IsZero() || c.current == nil {
		return since, !since.IsZero()
	}
	for _, r := range c.current.sent {
		if since.IsZero() || r.at.Before(since) {
			since = r.at
		}
	}
	return since, false
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
	for _, r := range slices.AppendSeq(slices.Clone(p.queue), maps.Values(p.sent)) {
		if r.answered != nil {
			kept = append(kept, "a request")
		}
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

// closeLimit is how long Close waits for the server.
const closeLimit = time.Second

// Close closes the connection and returns an error if no server has ended the session. A second
// call waits for the first and returns nil. Before Connect has returned, Close does nothing.
func (c *Conn) Close() error {
	if !c.returned.Load() {
		return nil
	}
	limit, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	c.stopMoves()
	c.moving <- struct{}{}
	defer func() { <-c.moving }()
	if c.IsClosed() {
		return nil
	}
	session := c.Session()
	c.end(limit.Done())
	c.putAway(limit.Done())
	if session == 0 || c.closeConfirmed.Load() {
		return nil
	}
	return errUnconfirmed
}

// end ends the session and run. Its steps: each hold is lost, and all calls of the locks end; the
// request to end the session is sent, and the server has until limit to answer it; then the network
// connection is closed. The holds are lost first, because a server that does not read may never
// take the request.
func (c *Conn) end(limit <-chan struct{}) {
	p := c.running()
	c.markClosed()
	var leaving sync.WaitGroup
	leaving.Go(func() {
		c.making <- struct{}{}
		defer func() { <-c.making }()
		if c.guest != nil {
			c.guest.end()
		}
	})
	if p != nil {
		over := make(chan struct{})
		go p.send(outgoing{Request: Request{op: opClose}, answered: func(Reply, error) { close(over) }})
		select {
		case <-over:
		case <-limit:
		}
	}
	c.mu.Lock()
	all := []*packetConn{c.current, c.next}
	c.mu.Unlock()
	for _, p := range all {
		if p != nil {
			p.fail()
		}
	}
	leaving.Wait()
}
