package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 400 * time.Millisecond
	// A connection that ends within settled does not reset the pauses. Otherwise a server that
	// closes each connection would receive a thousand connections a second.
	settled = time.Second
	// If a server does not answer within its limit, the other servers are preferred for
	// avoidance times that limit.
	avoidance = 4
	// longestTry bounds the first attempt at a server that accepts but does not answer. A healthy
	// server answers in milliseconds.
	longestTry  = time.Second
	shortestTry = 50 * time.Millisecond
)

// hosts says which server comes next: a round robin in random order, with a pause after each round.
// It also limits how long the Conn waits for a server's answer.
//
// Any goroutine may replace given. What follows it needs no mutex, because only Conn.run uses it.
type hosts struct {
	given atomic.Pointer[[]string] // the servers: of Connect, then of SetServers
	taken *[]string                // the value of given from which list was made

	quit    context.Context                                          // done when the Conn is closed
	resolve func(ctx context.Context, host string) ([]string, error) // nil: the dialer looks names up
	lookups sync.WaitGroup

	timeout time.Duration // of the session: asked for, then granted
	list    []*host
	last    *host     // returned by pick
	next    int       // index in list
	tries   int       // attempts since the last connection that lasted for settled
	since   time.Time // when a server granted the session; zero: there is no connection

	refusals int // attempts in a row that failed because the credentials of SASL were refused
}

// A host is a server as given to Connect.
type host struct {
	given     string
	addresses []string    // result of the last lookup that succeeded; nil: none has
	turn      int         // counts attempts, for the address that comes next
	hangs     int         // attempts in a row that the server did not answer
	avoided   time.Time   // until when other servers are preferred, see avoidance
	err       error       // of the last lookup
	lookup    chan func() // receives the result of the lookup under way, as a function that stores it; nil: none
}

func newHosts(quit context.Context, servers []string, timeout time.Duration) *hosts {
	h := &hosts{quit: quit, resolve: net.DefaultResolver.LookupHost, timeout: timeout}
	h.given.Store(&servers)
	h.update()
	h.last = h.list[0]
	return h
}

// update takes over given. It keeps what it knows of the servers that remain.
func (h *hosts) update() {
	given := h.given.Load()
	if given == h.taken {
		return
	}
	known := h.list
	h.taken, h.list, h.next = given, nil, 0
	for _, server := range shuffled(*given) { // so that not all clients connect to the first server
		x := &host{given: server, turn: rand.IntN(64)}
		if i := slices.IndexFunc(known, func(x *host) bool { return x.given == server }); i >= 0 {
			x = known[i]
		}
		h.list = append(h.list, x)
	}
}

func shuffled(servers []string) []string {
	servers = slices.Clone(servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return servers
}

// Servers returns the servers, with ports. The result must not be changed.
func (c *Conn) Servers() []string { return *c.hosts.given.Load() }

// pick returns the next server that is not avoided; if all are avoided, the next server.
func (h *hosts) pick() string {
	h.update()
	pick := h.next
	for i := range h.list {
		if at := (h.next + i) % len(h.list); !time.Now().Before(h.list[at].avoided) {
			pick = at
			break
		}
	}
	h.last, h.next = h.list[pick], (pick+1)%len(h.list)
	return h.last.given
}

// arrived records that a server has granted the session: the server that pick
// returned, or the server of a move.
func (h *hosts) arrived(server string, timeout time.Duration) {
	h.update()
	if at := slices.IndexFunc(h.list, func(x *host) bool { return x.given == server }); at >= 0 {
		h.last, h.next = h.list[at], (at+1)%len(h.list)
	}
	h.since, h.timeout = time.Now(), timeout
	h.answered()
}

// round returns how many attempts make a round.
func (h *hosts) round() (n int) {
	for _, x := range h.list {
		n += max(1, len(x.addresses))
	}
	return n
}

// pause counts an attempt and returns how long to wait before it. It is 0 during the first round
// after a connection that worked, and within a round. Between rounds it grows.
func (h *hosts) pause() time.Duration {
	round := h.round()
	if !h.since.IsZero() {
		if h.tries = min(h.tries, 2*round); time.Since(h.since) >= settled {
			h.tries = 0
		}
		h.since = time.Time{}
	}
	try := h.tries
	h.tries++
	if try < round || try%round != 0 {
		return 0
	}
	longest := min(lastPause, firstPause<<min(try/round-1, 6))
	return longest/2 + rand.N(longest/2)
}

// address returns what to dial for the picked server, and how long the server may take
// to answer. It looks up the name if no address is known. It looks it up again after a round of
// attempts has failed, because the servers may have moved.
func (h *hosts) address() (address string, limit time.Duration, err error) {
	x, limit := h.last, h.limit()
	name, port, err := net.SplitHostPort(x.given)
	if h.resolve == nil || err != nil || net.ParseIP(name) != nil {
		return x.given, limit, nil
	}
	if x.addresses == nil {
		h.lookUp(x, name, limit)
	} else if h.tries > h.round() {
		h.lookUp(x, name, shortestTry) // a name server that does not answer must not cost a hold
	}
	if x.addresses == nil {
		if x.err == nil {
			x.err = fmt.Errorf("looking up %s: no answer within %v: %w", x.given, limit, context.DeadlineExceeded)
		}
		return x.given, limit, x.err
	}
	x.turn++
	return net.JoinHostPort(x.addresses[x.turn%len(x.addresses)], port), limit, nil
}

// lookUp looks a name up and waits up to wait for the result. The lookup continues after that, for
// a later attempt: if the first of two name servers is dead, a lookup takes several seconds.
func (h *hosts) lookUp(x *host, name string, wait time.Duration) {
	if x.lookup == nil {
		result := make(chan func(), 1)
		x.lookup = result
		h.lookups.Go(func() {
			ctx, cancel := context.WithTimeout(h.quit, time.Minute) // some resolvers have no limit
			defer cancel()
			found, err := h.resolve(ctx, name)
			slices.Sort(found) // turn could skip an address if the resolver's order counted
			result <- func() {
				if x.err = err; err == nil && len(found) > 0 {
					x.addresses = slices.Compact(found)
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(h.quit, wait)
	defer cancel()
	select {
	case store := <-x.lookup:
		x.lookup = nil
		store()
	case <-ctx.Done():
	}
}

// limit returns how long the server may take to answer. The first limit is a sixth of the session
// timeout T, at most a second: a silent server is left after 2T/3 (see serve), and the remaining T/3
// should be enough for two attempts. The limit doubles with each attempt that the server did not
// answer, up to 2T/3, so that a slow ensemble is reached.
func (h *hosts) limit() time.Duration {
	first := min(max(h.timeout/6, shortestTry), longestTry)
	return min(first<<min(h.last.hangs, 8), max(first, h.timeout*2/3))
}

// hung records that the server of the attempt did not answer within its limit.
func (h *hosts) hung() {
	h.last.avoided = time.Now().Add(avoidance * h.limit())
	h.last.hangs++
}

// answered records that the server of the attempt has answered. It resets the limits of all
// servers: a hold may be lost while the Conn waits for a dead server.
func (h *hosts) answered() {
	h.last.avoided = time.Time{}
	h.refusals = 0
	for _, x := range h.list {
		x.hangs = 0
	}
}

// refused records that the credentials were refused in an attempt. It reports whether the servers
// have refused them. One refusal proves nothing: a Kerberos ticket is stale if the server has a new
// key, and one server may be configured wrongly.
func (h *hosts) refused() bool {
	h.refusals++
	return h.refusals >= max(2, h.round())
}

// sleep returns after d, or ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
