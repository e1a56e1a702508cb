package wire

import (
	"context"
	"fmt"
	"maps"
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
	// backoff is how many times as long an address that did not answer is avoided as the attempt
	// took, while there are other addresses.
	backoff = 4
	// longestTry bounds the first attempt at a server that accepts but does not answer. A healthy
	// server answers in milliseconds; one that is just starting was seen to leave a handshake
	// unanswered now and then.
	longestTry  = time.Second
	shortestTry = 50 * time.Millisecond
)

// hosts is the client's HostProvider. It decides which server comes next, how long to pause before,
// and how long to wait for its answer.
//
// The client calls Next while it holds a mutex that all its state changes need, so Next only picks;
// the dialer does everything that takes time. Next does not return retryStart before the client is
// closed: then the client sleeps a second and fails every waiting call.
type hosts struct {
	quit    context.Context                                          // done when the client must end
	resolve func(ctx context.Context, host string) ([]string, error) // nil: the dialer looks names up
	now     func() time.Time

	mu        sync.Mutex
	timeout   time.Duration // of the session
	list      []*host
	next      int
	tries     int // attempts since the last connection that lived for settled
	since     time.Time
	penalties map[string]penalty
	stopped   chan struct{} // closed when Next has told the client to end
	lookups   sync.WaitGroup
	once      sync.Once
}

// A host is one entry of the list given to Connect. addresses are the results of the last lookup of
// its name, one of which is dialed.
type host struct {
	given     string
	addresses []string
	turn      int
	looking   *lookup // the lookup under way; nil: none
}

// A penalty records until when an address is avoided that did not answer.
type penalty struct {
	times int // how often it did not; no more than it took to wait for the last one that did
	until time.Time
}

func newHosts(quit context.Context, servers []string, timeout time.Duration) *hosts {
	h := &hosts{
		quit:      quit,
		timeout:   timeout,
		resolve:   net.DefaultResolver.LookupHost,
		now:       time.Now,
		penalties: make(map[string]penalty),
		stopped:   make(chan struct{}),
	}
	for _, i := range rand.Perm(len(servers)) { // or all clients would connect to the first server
		h.list = append(h.list, &host{given: servers[i], addresses: []string{servers[i]}, turn: rand.IntN(64)})
	}
	return h
}

// Init is part of zk.HostProvider. The list is known already.
func (h *hosts) Init([]string) error { return nil }

// Len is part of zk.HostProvider.
func (h *hosts) Len() int { return len(h.list) }

// Next is part of zk.HostProvider. It returns the next server, another one than the last.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.quit.Err() != nil {
		// Not before: retryStart is the only way to end a client that is looking for a server.
		// Without it connect() would never notice that it was closed.
		h.once.Do(func() { close(h.stopped) })
		return h.list[h.next].given, true
	}
	now := h.now()
	pick := h.next
	for i := range h.list {
		if at := (h.next + i) % len(h.list); h.free(h.list[at], now) >= 0 {
			pick = at
			break
		}
	}
	h.next = (pick + 1) % len(h.list)
	return h.list[pick].given, false
}

// Connected is part of zk.HostProvider. It is called after a handshake that succeeded.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = h.now()
}

// pause returns how long to wait before the next attempt: not at all during the first round after a
// working connection, then longer with each full round.
func (h *hosts) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	round := 0
	for _, x := range h.list {
		round += len(x.addresses)
	}
	if !h.since.IsZero() {
		if h.now().Sub(h.since) >= settled {
			h.tries = 0
		} else {
			h.tries = min(h.tries, 2*round)
		}
		h.since = time.Time{}
	}
	try := h.tries
	h.tries++
	if try < round || try%round != 0 {
		return 0
	}
	longest := lastPause
	if n := try/round - 1; n < 6 {
		longest = min(lastPause, firstPause<<n)
	}
	return longest/2 + rand.N(longest/2)
}

// address picks what to dial for a server that Next returned, and how long it may take to answer.
// Names are looked up each time, as servers move. If the lookup fails, or takes long, the addresses
// of the last one are used.
func (h *hosts) address(given string) (address string, limit time.Duration, err error) {
	x := h.list[slices.IndexFunc(h.list, func(x *host) bool { return x.given == given })]
	if h.resolve != nil {
		if err := h.lookup(x); err != nil {
			return given, 0, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.free(x, h.now())
	if at < 0 {
		at = x.turn % len(x.addresses)
	}
	x.turn = at + 1
	address = x.addresses[at]
	return address, h.limit(h.penalties[address].times), nil
}

// lookup asks for the addresses of a name, and waits no longer than an attempt may take, or shortly
// if some are known. A lookup that takes longer goes on, and is of use to later attempts: where the
// first of two name servers is dead each takes seconds. The first attempt after a connection asks
// for all names: the others' turns come next.
func (h *hosts) lookup(x *host) error {
	h.mu.Lock()
	if h.tries <= 1 {
		for _, y := range h.list {
			h.startLookup(y)
		}
	}
	l := h.startLookup(x)
	limit, known := h.limit(0), x.addresses[0] != x.given
	h.mu.Unlock()
	if l == nil {
		return nil
	}
	if known {
		limit = shortestTry
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case <-l.done:
		err = l.err
	case <-timer.C:
		err = fmt.Errorf("looking up %s: no answer within %v: %w", x.given, limit, context.DeadlineExceeded)
	}
	if known {
		return nil
	}
	return err
}

// startLookup returns the lookup of a name that is under way, or begins one; nil: the host is given
// by its address. The caller holds mu.
func (h *hosts) startLookup(x *host) *lookup {
	name, port, err := net.SplitHostPort(x.given)
	if err != nil || net.ParseIP(name) != nil {
		return nil
	}
	if x.looking == nil {
		l := &lookup{done: make(chan struct{})}
		x.looking = l
		h.lookups.Go(func() { h.find(x, l, name, port) })
	}
	return x.looking
}

// A lookup is one under way. err is set when done is closed.
type lookup struct {
	done chan struct{}
	err  error
}

// longestLookup bounds a lookup whose resolver has no limit of its own.
const longestLookup = time.Minute

// find looks a name up and stores its addresses.
func (h *hosts) find(x *host, l *lookup, name, port string) {
	ctx, cancel := context.WithTimeout(h.quit, longestLookup)
	defer cancel()
	found, err := h.resolve(ctx, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(l.done)
	x.looking, l.err = nil, err
	if err != nil || len(found) == 0 {
		return
	}
	slices.Sort(found) // resolvers shuffle, and then turn could hit one address twice and another never
	x.addresses = x.addresses[:0:0]
	for _, ip := range slices.Compact(found) {
		x.addresses = append(x.addresses, net.JoinHostPort(ip, port))
	}
	maps.DeleteFunc(h.penalties, func(address string, p penalty) bool { // resolvers may tell some at a time
		return !h.lists(address) && !h.now().Before(p.until)
	})
}

// lists reports whether a server has an address; caller holds mu.
func (h *hosts) lists(address string) bool {
	return slices.ContainsFunc(h.list, func(x *host) bool { return slices.Contains(x.addresses, address) })
}

// limit returns how long an address may take to answer that has hung so many times before. At first
// it is at most a sixth of the session timeout: the client notices a silent server after two
// thirds, and the rest must be enough for two more attempts. It is longer for an address that hung,
// or a slow ensemble would never be reached. Caller holds mu.
func (h *hosts) limit(times int) time.Duration {
	first := min(max(h.timeout/6, shortestTry), longestTry)
	return min(first<<min(times, 8), max(first, h.timeout*2/3))
}

// granted replaces the session timeout that the client asked for.
func (h *hosts) granted(timeout time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timeout = timeout
}

// penalize records that an address did not answer within its limit.
func (h *hosts) penalize(address string, limit time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.penalties[address] = penalty{h.penalties[address].times + 1, h.now().Add(backoff * limit)}
}

// answered records that an address answered, and how long that took. From now on none is waited for
// longer than such an answer takes: a hold may be lost while the client waits for a server that is
// dead. But the next attempt at a slow one is as patient as it must be.
func (h *hosts) answered(address string, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.penalties[address]
	times := 0
	for times < p.times && h.limit(times) < took {
		times++
	}
	h.penalties[address] = penalty{times: times}
	if times == 0 {
		delete(h.penalties, address)
	}
	for other, p := range h.penalties {
		h.penalties[other] = penalty{min(p.times, times), p.until}
	}
}

// free returns the index of the next address of x that is not avoided, -1 if all are; caller holds
// mu.
func (h *hosts) free(x *host, now time.Time) int {
	for i := range x.addresses {
		at := (x.turn + i) % len(x.addresses)
		if !now.Before(h.penalties[x.addresses[at]].until) {
			return at
		}
	}
	return -1
}
