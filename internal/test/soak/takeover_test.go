package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// lasting is the session timeout of clients without a fault.
const lasting = time.Minute

// way is a way to hold a lock, and a way to wait for it.
type way struct {
	name       string
	below      string // the directory of the queue, below the lock's path; the node at the path holds "1"
	hold, next func(*zklocks.Conn, string) acquire
	watches    int // how many watches a caller of hold sets that waits behind a caller of next
}

var ways = []way{
	{"write", "", write, write, 2},
	{"read", "", func(c *zklocks.Conn, path string) acquire { return rwlock.New(c, path).RLock }, write, 2},
	{"reentrant", "", enters, enters, 2},
	{"semaphore", "/queue", permit, permit, 3},
	{"several", "", several, several, 2},
	{"leader", "", leads, leads, 2},
}

func write(c *zklocks.Conn, path string) acquire  { return rwlock.New(c, path).Lock }
func enters(c *zklocks.Conn, path string) acquire { return reentrant.New(c, path).Lock }
func permit(c *zklocks.Conn, path string) acquire { return semaphore.New(c, path, 1).Locker(1).Lock }
func leads(c *zklocks.Conn, path string) acquire  { return leader.New(c, path).Campaign }

// several acquires the lock together with another lock.
func several(c *zklocks.Conn, path string) acquire {
	return zklocks.All(rwlock.New(c, path+"-besides"), rwlock.New(c, path)).Lock
}

// takeovers plays all faults in virtual time, where the times are exact, and then on real servers,
// where they are measured.
func takeovers(t *testing.T, o options) {
	var y tally
	t.Run("virtual", func(t *testing.T) {
		random := rand.New(rand.NewPCG(o.Seed, 0))
		began := time.Now()
		for n := 0; n < 4*len(failures) || !o.short() && time.Since(began) < o.For/10; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				venue.InMemory(t, func(t *testing.T, v venue.Venue) {
					v.Latency(time.Microsecond + upTo(random, 2*time.Millisecond))
					tick := []time.Duration{100, 250, 500}[random.IntN(3)] * time.Millisecond
					opts := venue.Options{Tick: tick, Phase: upTo(random, tick), Partitions: true, SyncLimit: time.Second + upTo(random, time.Second)}
					b := &bench{T: t, venue: v, random: random, tick: tick, to: &y, one: v.Standalone(t, opts), three: v.Cluster(t, 3, opts)}
					b.play(n)
				})
			})
		}
	})
	y.print(t)
	t.Run("killed", func(t *testing.T) { killed(t, o) })
	t.Run("real", func(t *testing.T) { takeoversOnReal(t, o) })
}

func takeoversOnReal(t *testing.T, o options) {
	var y tally
	v := venue.Real()
	opts := venue.Options{Tick: 250 * time.Millisecond, Partitions: true, SyncLimit: time.Second}
	round := func(t *testing.T, n uint64, one venue.Server, three venue.Ensemble) *bench {
		return &bench{T: t, venue: v, random: rand.New(rand.NewPCG(o.Seed, n+1)), tick: opts.Tick, to: &y, one: one, three: three}
	}
	if o.short() {
		t.Run("connections", func(t *testing.T) {
			t.Parallel()
			round(t, 0, v.Shared(t), nil).connections(len(blows))
		})
		t.Run("members", func(t *testing.T) {
			t.Parallel()
			round(t, 1, nil, v.Cluster(t, 3, opts)).fails(failures[o.Seed%2])
		})
		return
	}
	one, three := v.Standalone(t, opts), v.Cluster(t, 3, opts)
	began := time.Now()
	for n := 0; n < 2*len(failures) || time.Since(began) < o.For; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) { round(t, uint64(n), one, three).play(n) })
	}
	y.print(t)
}

// play is one round. Every fourth round strikes connections, the other rounds strike servers.
func (b *bench) play(n int) {
	if n%4 == 0 {
		b.connections(3 * len(blows))
	} else {
		b.fails(failures[(n-n/4-1)%len(failures)])
	}
}

// blow strikes one holder's connection.
type blow struct {
	name   string
	strike func(*seat) // returns when the fault is in force
	// spares: the client may reconnect in time.
	spares bool
	// returns: the session lives on, for a while at least, and the client comes back too late.
	returns bool
}

var blows = []blow{
	{name: "black hole", strike: func(s *seat) { s.proxy.Mute() }},
	{name: "black hole at a heartbeat", strike: muteAt(proxy.CheckOp, proxy.HoldRequest)},
	{name: "black hole at a heartbeat's answer", strike: muteAt(proxy.CheckOp, proxy.HoldReply)},
	{name: "black hole at a ping's answer", strike: muteAt(proxy.PingOp, proxy.HoldReply)},
	{name: "connection refused", strike: func(s *seat) { s.proxy.Refuse() }},
	// A release that the client sends before the second fault still arrives, and may grant the lock
	// to the next holder.
	{name: "answers lost, later all", returns: true, strike: func(s *seat) {
		s.proxy.MuteReplies()
		pass(upTo(s.random, s.timeout))
		s.proxy.Mute()
	}},
	// The session lives on, because the client's reconnects keep it alive; so the client's own
	// delete grants the lock to the next holder, when the client has reconnected.
	{name: "answers lost, then back", returns: true, strike: func(s *seat) {
		s.proxy.MuteReplies()
		test.Within(s, patience, "the loss is notified", func() { <-s.hold.Lost() })
		pass(upTo(s.random, s.timeout))
		s.proxy.Unmute()
	}},
	{name: "connection hangs", spares: true, strike: func(s *seat) {
		s.packet([]proxy.Op{proxy.CheckOp, proxy.PingOp}[s.random.IntN(2)], proxy.HoldReply)
	}},
	{name: "black hole for a while", spares: true, strike: func(s *seat) {
		s.proxy.Mute()
		pass(s.timeout/3 + upTo(s.random, s.timeout/2))
		s.proxy.Unmute()
	}},
}

// muteAt begins a black hole with one packet.
func muteAt(op proxy.Op, action proxy.Action) func(*seat) {
	return func(s *seat) {
		s.packet(op, action)
		s.proxy.Mute()
	}
}

// failure strikes a server, and with it all holders behind it. The next callers are connected to
// the other servers, if there are any.
type failure struct {
	name     string
	servers  int  // how many servers the fault needs
	leader   bool // the fault strikes the leader, not a follower
	timeouts []time.Duration
	// spares: strike returns when all servers work again, and some or all holds may survive.
	spares bool
	// proxied: each holder has a proxy.
	proxied bool
	strike  func(*bench, venue.Server) (mend func())
}

var (
	brief = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	long  = []time.Duration{2 * time.Second, 4 * time.Second, 10 * time.Second, 20 * time.Second}
)

var failures = []failure{
	// A server that is cut off from the leader answers pings and reads for a while.
	{name: "follower cut off from the leader", servers: 3, timeouts: brief, strike: (*bench).isolate},
	{name: "follower frozen", servers: 3, timeouts: brief, strike: (*bench).freeze},
	{name: "leader cut off from the others", servers: 3, leader: true, timeouts: brief, strike: (*bench).isolate},
	{name: "leader deposed", servers: 3, leader: true, timeouts: []time.Duration{8 * time.Second}, proxied: true, strike: (*bench).depose},
	{name: "only server frozen", servers: 1, timeouts: brief, spares: true, strike: (*bench).freezeForAWhile},
	{name: "leader killed", servers: 3, leader: true, timeouts: long, spares: true, strike: (*bench).restart},
	{name: "follower killed", servers: 3, timeouts: long, spares: true, strike: (*bench).restart},
	{name: "members restarted, one by one", servers: 3, timeouts: long, spares: true, strike: func(b *bench, _ venue.Server) func() {
		for _, s := range b.three.Servers() {
			b.restart(s)
		}
		return func() {}
	}},
}

func (b *bench) isolate(s venue.Server) func() {
	b.must(b.three.Isolate(s))
	return b.three.Heal
}

func (b *bench) freeze(s venue.Server) func() {
	b.must(s.Pause())
	return func() { b.must(s.Resume()) }
}

func (b *bench) restart(s venue.Server) func() {
	b.must(s.Kill())
	pass(upTo(b.random, time.Second))
	b.must(s.Restart())
	b.whole()
	return func() {}
}

// freezeForAWhile lasts for between half the shortest deadline and well above the longest. A single
// server that is frozen grants no lock. Whatever the server does when it runs again, the lock is
// then either held by the same holder, or has been reported as lost.
func (b *bench) freezeForAWhile(s venue.Server) func() {
	b.must(s.Pause())
	b.silent = brief[0]/4 + upTo(b.random, brief[len(brief)-1]*5/4)
	var held []*seat
	for _, s := range b.seats {
		if s.hold.Held() {
			held = append(held, s)
		}
	}
	pass(b.silent)
	for _, s := range held {
		if closed(s.next.Done) {
			b.Errorf("%s: granted by a server that is frozen", s.path)
		}
	}
	b.must(s.Resume())
	return func() {}
}

// depose pauses the leader until it is deposed. When the leader continues, it has not detected yet
// that it was deposed. Until it does, it answers handshakes by itself, and the other members do not
// prolong a session that a client resumes there. Clients that reconnect to it, and reach no other
// server, must not count from that handshake.
func (b *bench) depose(old venue.Server) func() {
	b.must(old.Pause())
	test.Eventually(b, patience, "the others have elected a leader", func() bool {
		leader, err := b.three.Leader()
		return err == nil && leader.Addr() != old.Addr()
	})
	pass(time.Second + upTo(b.random, time.Second)) // longer than the interval to which a server rounds the end of a session
	epochs := make(map[*seat]uint64)
	for _, s := range b.seats {
		epochs[s] = s.holder.Epoch()
		came := s.proxy.Seen(proxy.ConnectOp)
		s.proxy.Cut()
		test.Eventually(b, patience, "the holder reconnects", func() bool { return s.proxy.Seen(proxy.ConnectOp) > came })
	}
	if b.venue.Virtual() && !slices.ContainsFunc(b.seats, func(s *seat) bool { return s.hold.Held() }) {
		b.Error("no hold lived when the deposed leader was back: it has shown nothing")
	}
	b.must(old.Resume())
	for _, s := range b.seats {
		test.Eventually(b, patience, "it answers", func() bool { return s.holder.Epoch() != epochs[s] })
		s.proxy.Mute()
	}
	return func() {
		for _, s := range b.seats {
			s.proxy.Unmute()
		}
	}
}

// bench has the holders of one round, each with a next caller.
type bench struct {
	*testing.T
	venue  venue.Venue
	random *rand.Rand
	tick   time.Duration // of the servers
	one    venue.Server
	three  venue.Ensemble
	to     *tally
	seats  []*seat
	silent time.Duration // at least how long no server has answered
}

// connections cuts off each holder at its own instant, which is random relative to its heartbeats
// and pings.
func (b *bench) connections(n int) {
	addrs := []string{b.one.Addr()}
	if b.three != nil && b.random.IntN(2) == 0 {
		addrs = b.three.Addrs()
	}
	first := b.random.IntN(len(ways))
	for i := range n {
		b.sit(ways[(first+i)%len(ways)], brief[b.random.IntN(2+i%2)], []string{addrs[b.random.IntN(len(addrs))]}, addrs, true)
	}
	var all sync.WaitGroup
	for i, s := range b.seats {
		all.Go(func() {
			pass(upTo(s.random, s.timeout*5/4))
			s.struck(blows[i%len(blows)])
		})
	}
	all.Wait()
	b.empty()
}

func (s *seat) struck(f blow) {
	s.own = f.spares || f.returns
	began := now(s.venue)
	f.strike(s)
	if !s.own {
		began = now(s.venue) // the fault is in force from here on, at the latest
	}
	if f.spares {
		s.back()
		s.proxy.Unmute()
		if s.survived() {
			s.to.add(loss{what: f.name, timeout: s.timeout, survived: true})
			return
		}
	}
	s.lost(f.name, began)
	if took := time.Duration(s.next.Hold.at - began); s.venue.Virtual() && !s.own && took > s.timeout+2*s.tick+10*time.Millisecond {
		s.Errorf("%s: the next one held %v after the fault, more than %v and two ticks of %v", f.name, took, s.timeout, s.tick)
	}
	s.proxy.Unmute()
	s.must(s.proxy.Accept())
	if s.back(); !f.spares {
		s.done()
	}
}

// fails makes one fault strike all holders. Unless the fault spares the holders, they reach no
// other server. The holders began at different instants, so the fault strikes each at a different
// point between its heartbeats.
func (b *bench) fails(f failure) {
	victim, others := b.one, []string(nil)
	if f.servers > 1 {
		b.whole()
		victim = b.member(f.leader)
		others = slices.DeleteFunc(b.three.Addrs(), func(addr string) bool { return addr == victim.Addr() })
	}
	behind := []string{victim.Addr()}
	switch {
	case f.servers == 1:
		others = behind
	case f.spares:
		behind = b.three.Addrs()
	}
	for _, i := range b.random.Perm(len(ways) * len(f.timeouts)) {
		b.sit(ways[i%len(ways)], f.timeouts[i/len(ways)], behind, others, f.proxied)
		pass(upTo(b.random, 40*time.Millisecond))
	}
	pass(upTo(b.random, time.Second))
	began := now(b.venue)
	outage := func() time.Duration { return 0 }
	if f.spares { // otherwise the requests would hide a proof that comes too early
		outage = b.watchOutage(others)
	}
	mend := f.strike(b, victim)
	if !f.spares {
		began = now(b.venue) // the fault is in force from here on, at the latest
	}
	for _, s := range b.seats {
		if s.own = f.spares; f.spares {
			s.back()
			if s.survived() {
				b.to.add(loss{what: f.name, timeout: s.timeout, survived: true})
				if b.silent > s.timeout {
					b.Errorf("%s: held after %v of silence, more than %v", s.path, b.silent, s.timeout)
				}
				continue
			}
			// A holder has at least half of T, from the last answer on.
			if b.venue.Virtual() && f.servers > 1 && outage() < s.timeout/2-time.Second {
				b.Errorf("%s: lost, T is %v, and a quorum had answered all the time but for %v", s.path, s.timeout, outage())
			}
		}
		s.lost(f.name, began)
	}
	if f.spares {
		b.Logf("%s: no quorum answered for %v", f.name, ms(outage()))
	}
	mend()
	if f.servers > 1 {
		b.whole()
	}
	for _, s := range b.seats {
		if s.back(); !f.spares {
			s.done()
		}
	}
	b.empty()
}

// member returns the leader, or any follower.
func (b *bench) member(leads bool) venue.Server {
	b.Helper()
	leader, err := b.three.Leader()
	b.must(err)
	followers, err := b.three.Followers()
	b.must(err)
	if leads {
		return leader
	}
	return followers[b.random.IntN(len(followers))]
}

// whole waits until all three members work together again.
func (b *bench) whole() {
	b.Helper()
	test.Eventually(b, patience, "a leader and two followers", func() bool {
		followers, err := b.three.Followers()
		return err == nil && len(followers) == 2
	})
}

// watchOutage sends requests to the quorum again and again. The returned function stops this, and
// returns the longest time without an answer.
func (b *bench) watchOutage(addrs []string) func() time.Duration {
	conn := b.venue.Connect(b, lasting, addrs...)
	stop, longest := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for answered := time.Now(); !closed(stop); pass(5 * time.Millisecond) {
			if _, err := conn.Client().Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}); err == nil {
				most = max(most, time.Since(answered))
				answered = time.Now()
			}
		}
		longest <- most
	}()
	return sync.OnceValue(func() time.Duration { close(stop); return <-longest })
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) empty() {
	for _, s := range b.seats {
		test.AssertEmpty(b, s.witness.Client(), s.path+s.below)
	}
}

// seat is one lock, a holder that a fault strikes, and a next caller that it does not strike.
type seat struct {
	*bench
	way
	random  *rand.Rand
	path    string
	timeout time.Duration
	proxy   *proxy.Proxy // of the holder's connection; nil: there is no proxy
	holder  *wire.Conn
	witness *wire.Conn // of the next caller
	hold    *zklocks.Hold
	ctx     context.Context
	own     bool // the session may survive: then the holder's own delete grants the lock, after the loss
	told    chan notice
	next    *contract.Attempt[grant]
}

// notice is the loss as a goroutine that waits on Lost detects it.
type notice struct {
	due int64 // the deadline, if the deadline has ended the hold
	at  int64 // when the goroutine woke up
}

// grant is the state when the acquiring call of the next caller has returned.
type grant struct {
	*zklocks.Hold
	at   int64
	held bool // the first holder's Held still returns true
	open bool // the first holder's Lost is not closed
}

// sit makes a holder acquire a lock, and returns when the next caller has queued.
func (b *bench) sit(w way, timeout time.Duration, servers, others []string, proxied bool) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	var p *proxy.Proxy
	if proxied {
		p = b.venue.Proxy(b, servers[0])
		servers = []string{p.Addr()}
	}
	s := &seat{
		bench: b, way: w, random: rand.New(rand.NewPCG(b.random.Uint64(), 0)), path: test.Path(b), timeout: timeout, proxy: p,
		holder: b.venue.Connect(b, timeout, servers...), witness: b.venue.Connect(b, lasting, others...), told: make(chan notice, 1),
	}
	b.seats = append(b.seats, s)
	var err error
	s.hold, err = w.hold(locks.On(s.holder), s.path)(ctx)
	b.must(err)
	s.ctx = s.hold.Context(ctx)
	lost, session := s.hold.Lost(), s.holder.Session()
	go func() {
		select {
		case <-lost:
		case <-s.ctx.Done():
		}
		if closed(lost) { // otherwise the hold was released
			at := now(s.venue)
			s.told <- notice{s.due(session, at), at}
		}
	}()
	follow := w.next(locks.On(s.witness), s.path)
	s.next = contract.Begin(b, ctx, func(ctx context.Context) (grant, error) {
		h, err := follow(ctx)
		at := now(s.venue)
		return grant{h, at, s.hold.Held(), !closed(lost)}, err
	})
	test.Eventually(b, patience, "the next caller queues", func() bool {
		return len(test.Children(b, s.witness.Client(), s.path+s.below)) == 2 || closed(lost) // on a busy machine
	})
}

// lost waits until the next caller holds, asserts that the holder was notified of its loss before,
// and records the times. In virtual time the loss is notified at the deadline, to the nanosecond,
// or earlier, if a server reports the end. On a real server the deadline and Held are asserted, and
// how late a goroutine woke up is measured: this machine may be busy.
func (s *seat) lost(what string, fault int64) {
	s.Helper()
	test.Within(s, patience, "the next caller holds", func() { <-s.next.Done })
	if s.next.Err != nil {
		s.Fatal(s.next.Err)
	}
	var n notice
	test.Within(s, patience, "the holder is notified", func() { n = <-s.told })
	g := s.next.Hold
	l := loss{what: what, timeout: s.timeout, due: time.Duration(n.due - fault), told: time.Duration(n.at - fault), granted: time.Duration(g.at - fault)}
	wrong := func(format string, args ...any) {
		s.Errorf("%s (%s): %+v: %s", s.path, s.name, l, fmt.Sprintf(format, args...))
	}
	byDeadline := n.due != n.at
	switch {
	case g.held || g.open:
		wrong("when the next one holds, the first one's Held is %v, its Lost closed %v", g.held, !g.open)
	case s.venue.Virtual() && (l.told != l.due || l.told >= l.granted):
		wrong("notified neither at the deadline nor before the grant")
	case byDeadline && l.due >= l.granted:
		wrong("the deadline is later than the grant")
	case byDeadline && !s.own && l.due > s.timeout:
		wrong("the deadline is more than the session timeout later than the fault")
	}
	if s.hold.Held() || !errors.Is(context.Cause(s.ctx), hold.ErrLost) {
		wrong("a lost hold reports Held %v, context %v", s.hold.Held(), context.Cause(s.ctx))
	}
	s.must(g.Release(context.Background()))
	s.to.add(l)
}

// due returns the deadline of the holder's session. If the deadline is unknown or later than at,
// due returns at.
func (s *seat) due(session, at int64) int64 {
	deadline := s.holder.Deadline(session)
	if deadline.IsZero() {
		return at
	}
	for { // reads the clock twice, with nothing between
		before := now(s.venue)
		ago := time.Since(deadline)
		if now := now(s.venue); now-before < int64(time.Millisecond) {
			return min(at, now-int64(ago))
		}
	}
}

// now returns the time by one clock, for everything that concerns a venue.
func now(v venue.Venue) int64 {
	if v.Virtual() {
		return time.Now().UnixNano()
	}
	return history.Now()
}

// packet waits until a fault strikes the next packet of that kind, or the hold is lost, because no
// such packet is sent after that.
func (s *seat) packet(op proxy.Op, action proxy.Action) {
	s.Helper()
	f := s.proxy.Next(op, action)
	s.Cleanup(f.Cancel)
	test.Within(s, patience, "the packet", func() {
		select {
		case <-f.Fired():
		case <-s.hold.Lost():
			f.Cancel()
		}
	})
}

// survived releases the lock if it is still held, and then the hold of the next caller.
func (s *seat) survived() bool {
	s.Helper()
	err := s.hold.Release(context.Background())
	switch {
	case closed(s.hold.Lost()):
		return false
	case !errors.Is(err, hold.ErrLost): // else it was released, and the session was over before the answer
		s.must(err)
	}
	if g := s.next.Granted(); g.held {
		s.Errorf("%s: released, and held", s.path)
	} else {
		s.must(g.Release(context.Background()))
	}
	return true
}

// done ends a lost hold.
func (s *seat) done() {
	s.Helper()
	if err := s.hold.Release(context.Background()); !errors.Is(err, hold.ErrLost) {
		s.Errorf("release after the loss: %v", err)
	}
}

// back waits until the holder's connection answers.
func (s *seat) back() {
	s.Helper()
	test.Eventually(s, patience, "the holder's connection is back", func() bool {
		_, _, err := s.holder.Client().Exists("/")
		return err == nil
	})
}

// pass lets time pass, because a fault comes at an instant that nothing announces.
func pass(d time.Duration) {
	timer := time.NewTimer(d) // real time, because no event announces the instant
	<-timer.C
}

func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
