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
	// A server that did not answer within its limit is avoided for avoidance times that limit,
	// while there are other servers.
	avoidance = 4
	// longestTry bounds the first attempt at a server that accepts but does not answer. A healthy
	// server answers in milliseconds. A server that is just starting was seen to leave a handshake
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
// It has no mutex. Only the client's main goroutine calls it, which makes one attempt at a time.
// That goroutine holds a mutex of the client while it calls Next, so Next only picks; the dialer
// does everything that takes time. Next does not return retryStart before the client is closed:
// then the client sleeps a second and fails every waiting call.
type hosts struct {
	quit    context.Context                                          // done when the client must end
	resolve func(ctx context.Context, host string) ([]string, error) // nil: the dialer looks names up
	stopped chan struct{}                                            // closed by stop
	stop    func()                                                   // Next calls it when it ends the client
	lookups sync.WaitGroup

	timeout time.Duration // of the session: asked for, then granted
	list    []*host
	last    *host // that Next has returned
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
	err       error      // of the last lookup
	lookup    chan found // receives the result of the lookup under way; nil: none is
}

// found is the result of a lookup.
type found struct {
	addresses []string
	err       error
}

func newHosts(quit context.Context, servers []string, timeout time.Duration) *hosts {
	h := &hosts{quit: quit, resolve: net.DefaultResolver.LookupHost, stopped: make(chan struct{}), timeout: timeout}
	h.stop = sync.OnceFunc(func() { close(h.stopped) })
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
	if h.quit.Err() != nil {
		// Not before: retryStart is the only way to end a client that is looking for a server.
		// Without it connect() would never notice that it was closed.
		h.stop()
		return h.last.given, true
	}
	pick := h.next
	for i := range h.list {
		if at := (h.next + i) % len(h.list); !time.Now().Before(h.list[at].avoided) {
			pick = at
			break
		}
	}
	h.last, h.next = h.list[pick], (pick+1)%len(h.list)
	return h.last.given, false
}

// Connected is part of zk.HostProvider. It is called after a handshake that succeeded.
func (h *hosts) Connected() { h.since = time.Now() }

// round returns how many attempts make a round.
func (h *hosts) round() (n int) {
	for _, x := range h.list {
		n += max(1, len(x.addresses))
	}
	return n
}

// pause counts an attempt and returns how long to wait before it: not at all during the first round
// after a working connection, then longer with each full round.
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

// address returns what to dial for the server that Next returned, and how long the server may take
// to answer. Its name is looked up if no address is known, and again after a round of attempts has
// failed, because servers move.
func (h *hosts) address() (address string, limit time.Duration, err error) {
	x, limit := h.last, h.limit()
	name, port, err := net.SplitHostPort(x.given)
	if h.resolve == nil || err != nil || net.ParseIP(name) != nil {
		return x.given, limit, nil
	}
	if x.addresses == nil {
		h.lookUp(x, name, limit)
	} else if h.tries > h.round() {
		h.lookUp(x, name, shortestTry) // name servers that are gone must not cost a hold
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

// lookUp looks a name up and waits at most so long. The lookup then continues, for a later attempt:
// if the first of two name servers is dead, a lookup takes several seconds.
func (h *hosts) lookUp(x *host, name string, wait time.Duration) {
	if x.lookup == nil {
		result := make(chan found, 1)
		x.lookup = result
		h.lookups.Go(func() {
			ctx, cancel := context.WithTimeout(h.quit, longestLookup)
			defer cancel()
			addresses, err := h.resolve(ctx, name)
			result <- found{addresses, err}
		})
	}
	ctx, cancel := context.WithTimeout(h.quit, wait)
	defer cancel()
	select {
	case f := <-x.lookup:
		x.lookup, x.err = nil, f.err
		if f.err == nil && len(f.addresses) > 0 {
			slices.Sort(f.addresses) // resolvers shuffle, and then turn could hit one address twice and another never
			x.addresses = slices.Compact(f.addresses)
		}
	case <-ctx.Done():
	}
}

// limit returns how long the server may take to answer: at first at most a sixth of the session
// timeout, because the client notices a silent server after two thirds, and the rest must be enough
// for two more attempts. It doubles with each attempt that the server did not answer, or a slow
// ensemble would never be reached.
func (h *hosts) limit() time.Duration {
	first := min(max(h.timeout/6, shortestTry), longestTry)
	return min(first<<min(h.last.hangs, 8), max(first, h.timeout*2/3))
}

// hung records that the server of the attempt did not answer within its limit.
func (h *hosts) hung() {
	h.last.avoided = time.Now().Add(avoidance * h.limit())
	h.last.hangs++
}

// answered records that the server of the attempt has answered. From then on no server is waited
// for longer than at first: a hold may be lost while the client waits for a server that is dead.
func (h *hosts) answered() {
	h.last.avoided = time.Time{}
	for _, x := range h.list {
		x.hangs = 0
	}
}

// sleep returns after d, or ctx's error.
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
