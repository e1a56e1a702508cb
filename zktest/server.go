package zktest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/slot"
)

// latency is the time that a packet travels between a host and a server. Without it an answer would
// take no time, and a goroutine that polls would stop the clock of its bubble.
const latency = 50 * time.Microsecond

// A Server is an in-memory ZooKeeper: a standalone server, or an ensemble. Hosts reach it on an
// in-memory network of its own. All methods may be called from several goroutines.
type Server struct {
	t         testing.TB
	bubble    string // the bubble in which it was made
	holdsLeft bool   // see WithHoldsLeft
	number    int    // unique among the running servers of the bubble
	network   *memnet.Network
	ensemble  *memzk.Ensemble

	mu       sync.Mutex
	members  []*Member // also those that were removed; the index is the number less 1
	hosts    map[string]*Host
	clients  clients
	watchdog watchdog
	stopping bool
}

// An Option changes how NewServer makes a Server.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	memzk.Config
	seed      uint64
	holdsLeft bool
}

// WithMembers makes an ensemble of n members. The default is 1, a standalone server.
func WithMembers(n int) Option { return option(func(s *settings) { s.Members = n }) }

// WithTick sets the tick, ZooKeeper's unit of time. The server grants session timeouts of 2 to 20
// ticks, and limits others to that range, as ZooKeeper does. A session expires up to one tick late,
// or up to one and a half ticks late after a packet to a follower. t fails if d is below a
// millisecond or above 29 hours. The default is 2 s, as in ZooKeeper's sample configuration: it
// grants 4 to 40 s.
func WithTick(d time.Duration) Option { return option(func(s *settings) { s.Tick = d }) }

// WithSASL makes the server know users, with their passwords, for zklocks.SASLDigest. If required
// is true, the server refuses each request of a client that has not authenticated as one of them,
// as ZooKeeper does with sessionRequireClientSASLAuth. The default is a server without SASL. Tests
// of a program that uses Kerberos can use it, too: the mechanism alone differs.
func WithSASL(users map[string]string, required bool) Option {
	users = maps.Clone(users)
	return option(func(s *settings) { s.SASL = &memzk.SASL{Start: memzk.DigestMD5(users), Required: required} })
}

// WithVersion sets the version whose behavior the server imitates, as in "3.8.0", the oldest known
// version; t fails for an older version. The default is the newest known version.
func WithVersion(v string) Option { return option(func(s *settings) { s.Version = v }) }

// WithContainerCheck sets how often the server deletes empty container nodes, in which locks keep
// their nodes. t fails if d is not positive. The default is a minute, as in ZooKeeper.
func WithContainerCheck(d time.Duration) Option {
	return option(func(s *settings) { s.ContainerCheck = d })
}

// WithSeed sets the seed for the server's random choices: how much of a tick has passed when it
// starts, and so how late a session ends; the order in which an expired session's nodes are
// deleted; and which of equal members leads. The default is 1. The order in which goroutines run at
// the same instant is Go's and has no seed.
func WithSeed(seed uint64) Option { return option(func(s *settings) { s.seed = seed }) }

// WithHoldsLeft allows a test to end while a connection of Host.Connect holds locks. By default t
// fails, and names the holds that are neither released nor lost. A program that forgets to release
// a hold makes all other callers wait until its session ends.
func WithHoldsLeft() Option { return option(func(s *settings) { s.holdsLeft = true }) }

// WithLog calls f with a text for each event of members and sessions. To use t.Log:
//
//	zktest.WithLog(func(s string) { t.Log(s) })
//
// Several goroutines may call f at once. It must not call a method of the Server or its Members.
// The default is none.
func WithLog(f func(string)) Option { return option(func(s *settings) { s.Log = f }) }

// mostMembers is how many members a Server can have. mostServers is how many Servers have addresses
// of their own. The ports are below 1024, where programs without privileges do not listen.
const mostMembers, mostServers = 100, 10

// servers records which numbers are in use, by bubble. A Server has the smallest free number, so
// that a test that is repeated has the same addresses and session ids.
var servers = struct {
	mu      sync.Mutex
	numbers map[string][]bool
}{numbers: map[string][]bool{}}

func takeNumber(bubble string) int {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	numbers := servers.numbers[bubble]
	n := slices.Index(numbers, false)
	if n < 0 {
		n = len(numbers)
		numbers = append(numbers, false)
	}
	numbers[n] = true
	servers.numbers[bubble] = numbers
	return n
}

func freeNumber(bubble string, n int) {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	if servers.numbers[bubble][n] = false; !slices.Contains(servers.numbers[bubble], true) {
		delete(servers.numbers, bubble)
	}
}

// NewServer starts a Server that stops at t's cleanup. All connections must be closed by then:
// Host.Connect closes its connections, and t fails for each other open connection.
//
// In a synctest bubble t must be the t that synctest.Test passes to its function. A test that has run
// for a minute of real time, and for a day in its bubble, ends the program, and names the holds and
// the goroutines: it waits for a job that never ends.
func NewServer(t testing.TB, opts ...Option) *Server {
	t.Helper()
	if wrongT(t) {
		t.Fatal("zktest: NewServer: this t is not that of the bubble: use the t that synctest.Test passes to its function")
	}
	set := settings{seed: 1}
	set.Members, set.Tick, set.ContainerCheck = 1, 2*time.Second, time.Minute
	for _, o := range opts {
		if o != nil {
			o.apply(&set)
		}
	}
	switch {
	case set.Members < 1 || set.Members > mostMembers:
		t.Fatalf("zktest: WithMembers: %d members", set.Members)
	case set.Tick < time.Millisecond || set.Tick > memzk.LongestTick:
		t.Fatalf("zktest: WithTick: %v", set.Tick)
	case set.ContainerCheck <= 0:
		t.Fatalf("zktest: WithContainerCheck: %v", set.ContainerCheck)
	case set.Version != "" && !memzk.IsVersion(set.Version):
		t.Fatalf("zktest: WithVersion: %q, want three numbers, as in 3.9.3, and not below 3.8.0", set.Version)
	}
	set.Random = rand.New(rand.NewPCG(set.seed, set.seed))
	set.Phase = time.Duration(set.Random.Int64N(int64(set.Tick)))
	set.Number = takeNumber(bubble())
	s := &Server{
		t:         t,
		bubble:    bubble(),
		holdsLeft: set.holdsLeft,
		number:    set.Number,
		network:   memnet.New(),
		hosts:     make(map[string]*Host),
		watchdog:  watchdog{began: time.Now(), last: realNow()},
	}
	s.network.SetLatency(latency)
	if set.Members > 1 {
		set.Describe = s.describe
	}
	s.ensemble = memzk.Start(set.Config)
	for _, m := range s.ensemble.Members() {
		s.members = append(s.members, newMember(s, m))
	}
	t.Cleanup(func() { s.stop() })
	return s
}

// stop runs at cleanup, after everything that the test has deferred and cleaned up itself.
func (s *Server) stop() {
	s.t.Helper()
	if why := foreign(s.bubble); why != "" {
		s.t.Errorf("zktest: cleanup: %s", why)
		return
	}
	// A client that is being closed may wait for a network that the test has broken,
	s.network.Between(memnet.Any, memnet.Any).Heal()
	open := s.await(s.clients.open)
	cut := len(open) > 0
	if cut {
		// or for an answer that is held, or for a paused member. If its connection ends, a client
		// that is being closed ends, too. A client that the test has left open dials again.
		s.network.Between(memnet.Any, memnet.Any).Cut()
		open = s.await(s.clients.open)
	}
	s.mu.Lock()
	s.stopping = true // from now on a dial shows a client that still runs
	hosts := s.hosts
	s.mu.Unlock()
	for _, m := range s.all() {
		m.close()
	}
	s.ensemble.Stop()
	freeNumber(s.bubble, s.number)
	for _, h := range hosts {
		h.proxy.Close()
	}
	s.network.Close()
	if cut || s.bubble != "" {
		time.Sleep(1500 * time.Millisecond) // zk.Conn pauses for a second between its attempts to connect
		open = append(open, s.clients.late()...)
	}
	var lines []string
	for _, c := range open {
		if line := c.String(); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		s.t.Errorf("zktest: a connection is not closed when the test ends: %s", line)
	}
	for _, c := range open {
		if c.ours != nil {
			_ = c.ours.Close()
		}
	}
	if s.bubble != "" {
		// The goroutines that the clients still have end only when timers fire. The clock of a
		// bubble stops when its function has returned, so a minute of virtual time passes here.
		time.Sleep(time.Minute)
	}
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// await waits for clients that are being closed, and returns the connections that remain.
func (s *Server) await(open func() []*dialed) []*dialed {
	patience := 2 * time.Second
	if s.bubble != "" {
		patience = 10 * time.Minute
	}
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, patience/100) {
		left := open()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

// all returns all members, also those that were removed.
func (s *Server) all() []*Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.members)
}

// Addrs returns the addresses of Members. Only Host.Dial and Host.DialTimeout can connect to
// them: no real port is open, and the system refuses a client with another dialer at once. See
// ListenTCP.
func (s *Server) Addrs() []string {
	var addrs []string
	for _, m := range s.Members() {
		addrs = append(addrs, m.Addr())
	}
	return addrs
}

// Host returns the host with that name, and creates it at the first call. A program under test runs
// on a host: it connects from there, and the host has its own network faults.
func (s *Server) Host(name string) *Host {
	s.check("Host")
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[name]; h != nil {
		return h
	}
	if name == "" || name == memnet.Any || strings.ContainsAny(name, ":[]") || slices.ContainsFunc(s.members, func(m *Member) bool { return m.host == name }) {
		panic(fmt.Sprintf("zktest: Host: %q is no name for a host: it is empty, contains a colon or a bracket, or is that of a member", name))
	}
	h := newHost(s, name, caller())
	s.hosts[name] = h
	return h
}

// Expire ends a session now, as the server does when it has received nothing from the client for
// the session timeout: it deletes the session's ephemeral nodes, and so releases its locks. The
// client first loses its connection, and is notified of the expiry when it has reconnected. Unlike
// at a real expiry no silence precedes it, so another client can hold a lock a moment before the
// old hold is lost: to test that no two work at the same time, use Partition. conn is a
// *zklocks.Conn or a *zk.Conn; t fails if it is neither, or has no session.
//
// The leader, or the only server, expires the session. If it is paused or has no majority, it can
// only begin: the session ends when it is resumed and has a majority. If another leader is elected
// instead, the session ends there by its timeout.
func (s *Server) Expire(conn any) {
	s.t.Helper()
	s.check("Expire")
	var id int64
	switch c := conn.(type) {
	case *zklocks.Conn:
		if c != nil && slot.Wire(c) != nil {
			id = slot.Wire(c).Session()
		}
	case *zk.Conn:
		if c != nil {
			id = c.SessionID()
		}
	case interface{ SessionID() int64 }:
		id = c.SessionID()
	default:
		s.t.Errorf("zktest: Expire: a %T is no connection", conn)
		return
	}
	if id == 0 {
		s.t.Errorf("zktest: Expire: the connection has no session")
		return
	}
	// While the ensemble has no leader, wait for the election.
	for deadline := time.Now().Add(time.Minute); s.ensemble.Leader() == nil && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if !s.ensemble.Expire(id) {
		s.t.Errorf("zktest: Expire: the server has no session %#x, or no leader", id)
	}
}

// Restart restarts all members at once, as after a power cut. Data and sessions remain, and each
// session has its full timeout again. Clients reconnect by themselves.
func (s *Server) Restart() {
	s.t.Helper()
	s.check("Restart")
	members := s.all()
	for _, m := range members {
		m.kill()
	}
	for _, m := range members {
		m.start()
	}
}

// Members returns the members, by number, without those that were removed.
func (s *Server) Members() []*Member {
	return slices.DeleteFunc(s.all(), func(m *Member) bool { return m.removed.Load() })
}

// Leader returns the leader, or nil while there is none. A paused or isolated member remains the
// leader until the others have elected another.
func (s *Server) Leader() *Member {
	m := s.ensemble.Leader()
	if m == nil {
		return nil
	}
	return s.all()[m.ID()-1]
}

// Elect makes m the leader, as if the current leader had died: all clients must reconnect, and each
// session has its full timeout again. t fails if m cannot lead because it is dead or paused, or
// reaches no majority.
func (s *Server) Elect(m *Member) {
	s.t.Helper()
	s.check("Elect")
	if m == nil || m.s != s || !s.ensemble.Elect(m.m) {
		s.t.Errorf("zktest: Elect: the member cannot lead: it is dead or paused, reaches no majority, or is of another server")
	}
}

// check panics in the wrong bubble, for methods that return no error.
func (s *Server) check(method string) {
	if why := foreign(s.bubble); why != "" {
		panic("zktest: " + method + ": " + why)
	}
}
