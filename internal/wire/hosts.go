package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 400 * time.Millisecond
	// A connection that lived shorter than settled does not reset the pauses. Otherwise a server
	// that disconnects its clients would get a thousand connections a second.
	settled = time.Second
	// backoff is how many times as long a server that did not answer is avoided as the attempt
	// took, while there are other servers.
	backoff = 4
	// longestTry bounds the first attempt at a server that accepts but does not answer. A healthy
	// server answers in milliseconds; a server that is just starting was seen to leave a handshake
	// unanswered now and then.
	longestTry  = time.Second
	shortestTry = 50 * time.Millisecond
	// longestLookup bounds a lookup whose resolver has no limit of its own.
	longestLookup = time.Minute
)

// hosts is the client's HostProvider. It decides which server comes next, how long to pause before
// the attempt, and how long to wait for the server's answer: a round robin in random order, with a
// pause after each round.
//
// The client calls Next while it holds a mutex that all its state changes need, so Next only picks;
// the dialer does everything that takes time. Next does not return retryStart before the client is
// closed: then the client sleeps a second and fails every waiting call.
type hosts struct {
	quit    context.Context                                          // done when the client must end
	resolve func(ctx context.Context, host string) ([]string, error) // nil: the dialer looks names up
	now     func() time.Time
	stopped chan struct{} // closed when Next has told the client to end
	once    sync.Once     // closes stopped
	lookups sync.WaitGroup

	mu      sync.Mutex // guards everything below, and the hosts of list
	timeout time.Duration
	took    time.Duration // the last answer to a handshake
	list    []*host
	last    *host // that Next has returned: the client makes one attempt at a time
	next    int
	tries   int       // attempts since the last connection that lived for settled
	since   time.Time // of the connection; zero: there is none
}

// A host is a server as given to Connect.
type host struct {
	given     string
	addresses []string // found by the last lookup; nil: none has succeeded
	turn      int      // which of them comes next
	hangs     int      // how many attempts in a row were not answered
	avoided   time.Time
	looking   chan struct{} // closed when the lookup under way has ended; nil: none is
	err       error         // of the last lookup
}

func newHosts(quit context.Context, servers []string, timeout time.Duration) *hosts {
	h := &hosts{quit: quit, resolve: net.DefaultResolver.LookupHost, now: time.Now, stopped: make(chan struct{}), timeout: timeout}
	for _, i := range rand.Perm(len(servers)) { // or all clients would connect to the first server
		h.list = append(h.list, &host{given: servers[i], turn: rand.IntN(64)})
	}
	h.last = h.list[0]
	return h
}

// Init is part of zk.HostProvider. The list is known already.
func (h *hosts) Init([]string) error { return nil }

// Len is part of zk.HostProvider.
func (h *hosts) Len() int { return len(h.list) }

// Next is part of zk.HostProvider. It returns the next server that is not avoided; if all are, the
// next server.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.quit.Err() != nil {
		// Not before: retryStart is the only way to end a client that is looking for a server.
		// Without it connect() would never notice that it was closed.
		h.once.Do(func() { close(h.stopped) })
		return h.last.given, true
	}
	pick := h.next
	for i := range h.list {
		if at := (h.next + i) % len(h.list); !h.now().Before(h.list[at].avoided) {
			pick = at
			break
		}
	}
	h.last, h.next = h.list[pick], (pick+1)%len(h.list)
	return h.last.given, false
}

// Connected is part of zk.HostProvider. It is called after a handshake that succeeded.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = h.now()
}

// round returns how many attempts make a round; caller holds mu.
func (h *hosts) round() (n int) {
	for _, x := range h.list {
		n += max(1, len(x.addresses))
	}
	return n
}

// pause counts an attempt and returns how long to wait before it: not at all during the first round
// after a working connection, then longer with each full round.
func (h *hosts) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	round := h.round()
	if !h.since.IsZero() {
		if h.tries = min(h.tries, 2*round); h.now().Sub(h.since) >= settled {
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

// address returns what to dial for the server that Next returned, and how long the server may take
// to answer. Its name is looked up if no address is known, and again after a round of attempts has
// failed, because servers move.
func (h *hosts) address() (address string, limit time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x, limit := h.last, h.limit(h.last)
	name, port, err := net.SplitHostPort(x.given)
	if h.resolve == nil || err != nil || net.ParseIP(name) != nil {
		return x.given, limit, nil
	}
	if x.addresses == nil || h.tries > h.round() {
		if x.looking == nil {
			x.looking = make(chan struct{})
			h.lookups.Go(func() { h.lookUp(x, name) })
		}
		wait := limit
		if x.addresses != nil {
			wait = shortestTry // name servers that are gone must not cost a hold
		}
		h.await(x.looking, wait)
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

// await waits for a lookup, at most so long, without mu, which the caller holds. The lookup then
// continues, for a later attempt: if the first of two name servers is dead it takes several
// seconds.
func (h *hosts) await(lookup <-chan struct{}, limit time.Duration) {
	h.mu.Unlock()
	defer h.mu.Lock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-lookup:
	case <-timer.C:
	case <-h.quit.Done():
	}
}

// lookUp looks the name of a host up.
func (h *hosts) lookUp(x *host, name string) {
	ctx, cancel := context.WithTimeout(h.quit, longestLookup)
	defer cancel()
	found, err := h.resolve(ctx, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && len(found) > 0 {
		slices.Sort(found) // resolvers shuffle, and then turn could hit one address twice and another never
		x.addresses = slices.Compact(found)
	}
	x.err = err
	close(x.looking)
	x.looking = nil
}

// limit returns how long a host may take to answer: at first at most a sixth of the session
// timeout, because the client notices a silent server after two thirds, and the rest must be enough
// for two more attempts. It is longer for a host that did not answer, and where the last answer
// took long, or a slow ensemble would never be reached. Caller holds mu.
func (h *hosts) limit(x *host) time.Duration {
	first := min(max(h.timeout/6, shortestTry), longestTry)
	return min(max(first, 2*h.took)<<min(x.hangs, 8), max(first, h.timeout*2/3))
}

// granted replaces the session timeout that the client asked for.
func (h *hosts) granted(timeout time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timeout = timeout
}

// hung records that the server of the attempt did not answer within its limit.
func (h *hosts) hung() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last.avoided = h.now().Add(backoff * h.limit(h.last))
	h.last.hangs++
}

// answered records that the server of the attempt has answered, and how long that took. No server
// is waited for longer than such an answer takes any more: a hold may be lost while the client
// waits for a server that is dead.
func (h *hosts) answered(took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = took
	h.last.avoided = time.Time{}
	for _, x := range h.list {
		x.hangs = 0
	}
}
