package memzk

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// trio runs a test with three members; the third leads.
func trio(t *testing.T, test func(t *testing.T, e *Ensemble, f, g, l *Member)) {
	t.Helper()
	bubble(t, Config{Members: 3}, func(t *testing.T, e *Ensemble) {
		m := e.Members()
		if e.Leader() != m[2] {
			t.Fatal("the third member does not lead")
		}
		test(t, e, m[0], m[1], m[2])
	})
}

const tick = 2 * time.Second

// A follower reports the use of a session with its answer to the leader's ping, twice a tick. A
// ping that was due while the follower was cut off arrives before all that the leader sends later.
func TestTouchesReachTheLeaderWithThePing(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		used, from, to, over time.Duration // the follower is cut off twice, between from and to it is not
	}{
		// Opened at 0: the timer is set at once, and again by the ping at 1 s.
		"never":                   {over: 6000 * ms},
		"just before a ping":      {used: 1900 * ms, over: 8000 * ms},
		"just after a ping":       {used: 2100 * ms, over: 8000 * ms},
		"in a bucket's last ms":   {used: 3999 * ms, over: 10000 * ms},
		"cut off at a ping":       {used: 2900 * ms, from: 2950 * ms, to: 3050 * ms, over: 8000 * ms},
		"cut off before the ping": {used: 2900 * ms, from: 2910 * ms, to: 2920 * ms, over: 6000 * ms},
		"cut off for two pings":   {used: 2900 * ms, from: 2950 * ms, to: 4050 * ms, over: 10000 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
				r := rawSession(t, f, 4*time.Second)
				time.Sleep(c.used)
				if c.used > 0 && r.call(jute.OpPing, nil).xid != jute.XidPing {
					t.Error("no answer to a ping")
				}
				if c.from > 0 {
					time.Sleep(c.from - e.now())
					f.Isolate()
					time.Sleep(c.to - e.now())
					f.Heal()
					f.Isolate()
				}
				endsAt(t, e, c.over)
			})
		})
	}
}

// endsAt asserts that the only session ends at that time since the start.
func endsAt(t *testing.T, e *Ensemble, over time.Duration) {
	t.Helper()
	time.Sleep(over - e.now() - time.Millisecond) // virtual
	if len(e.Sessions()) != 1 {
		t.Errorf("%v: the session has ended", e.now())
	}
	time.Sleep(2 * time.Millisecond) // virtual
	if len(e.Sessions()) != 0 {
		t.Errorf("%v: the session is still there", e.now())
	}
}

func TestALaggingFollowerServesOldData(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		behind, writer := rawSession(t, f, 10*time.Second), rawSession(t, l, 10*time.Second)
		f.Lag(3 * time.Second)
		writer.mustCreate("/a", 0)
		if behind.exists("/a") {
			t.Error("the follower shows the node at once")
		}
		start := time.Now()
		if p := behind.call(jute.OpSync, jute.AppendText(nil, "/")); p.code != jute.CodeOK || p.string() != "/" {
			t.Errorf("sync: %+v", p)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("the sync took %v", d)
		}
		if !behind.exists("/a") {
			t.Error("the follower does not show the node after a sync")
		}

		// A sync that waits returns its own path, whatever packet follows the sync.
		writer.mustCreate("/x", 0)
		behind.request(1, jute.OpSync, jute.AppendText(nil, "/first"))
		synctest.Wait() // the sync was read: the next request is another packet in the same buffer
		behind.request(2, jute.OpExists, pathBody("/other", false))
		if p := behind.next(); p.xid != 1 || p.string() != "/first" {
			t.Errorf("the sync that waits: %+v", p)
		}
		behind.next()

		// A client's own write is answered when its member shows it, and reads wait behind it.
		start = time.Now()
		behind.request(1, jute.OpCreate, createBody("/b", 0))
		behind.request(2, jute.OpExists, pathBody("/b", false))
		first, second := behind.next(), behind.next()
		if first.xid != 1 || second.xid != 2 || first.code != jute.CodeOK || second.code != jute.CodeOK {
			t.Errorf("replies: %+v, %+v", first, second)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("the write took %v", d)
		}

		writer.mustCreate("/c", 0)
		f.Lag(0)
		if !behind.exists("/c") {
			t.Error("a follower that lags no more is behind")
		}
	})
}

func TestAnIsolatedFollowerAnswersReadsWhileItsSessionsExpire(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r, other := rawSession(t, f, 4*time.Second), rawSession(t, l, 40*time.Second)
		r.mustCreate("/a", jute.FlagEphemeral)
		f.Isolate()
		for range 9 {
			time.Sleep(time.Second)
			r.must(jute.OpPing, nil)
			if !r.exists("/a") {
				t.Error("the isolated follower lost the node")
			}
		}
		if other.exists("/a") {
			t.Error("the leader has not ended the session")
		}
		// After syncLimit ticks without the leader the follower stops serving.
		if !r.ended(2 * time.Second) {
			t.Error("the follower serves without a leader")
		}
		if again, ok := r.again(f, 0); ok || !again.ended(0) {
			t.Error("a member without a leader answers")
		}
		f.Heal()
		time.Sleep(time.Second)
		if _, ok := r.again(f, r.zxid); ok {
			t.Error("the session lives")
		}
		if rawSession(t, f, 4*time.Second).exists("/a") {
			t.Error("the follower has not caught up")
		}
	})
}

func TestALeaderWithoutMajorityCommitsNothing(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 10*time.Second)
		f.Isolate()
		r.mustCreate("/a", 0) // two of three
		g.Isolate()
		r.request(1, jute.OpCreate, createBody("/b", 0))
		r.request(2, jute.OpExists, pathBody("/b", false))
		if !r.silent(3 * time.Second) {
			t.Error("a write without a majority was answered, or a read overtook it")
		}
		// Other connections still read, connect and close.
		other := rawTo(t, l)
		other.sendConnect(0, 0, make([]byte, 16), 10*time.Second)
		if !other.silent(time.Second) {
			t.Error("a new session without a majority")
		}
		other.nc.Close()
		f.Heal()
		r.answered(1)
		r.answered(2)
	})
}

func TestAnIsolatedLeaderIsDeposed(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		start := time.Now()
		r := rawSession(t, l, 40*time.Second)
		r.mustCreate("/a", 0)
		l.Isolate()
		r.request(1, jute.OpCreate, createBody("/lost", 0))
		for time.Since(start) < 5*tick {
			reader, ok := r.again(l, r.zxid)
			if !ok || !reader.exists("/a") {
				t.Fatalf("the deposed leader refuses a session that it knows, after %v", time.Since(start))
			}
			if len(e.Nodes()) != 1 {
				t.Fatalf("nodes: %v", e.Nodes())
			}
			r = reader
			time.Sleep(time.Second)
		}
		// The other members elect a leader at 5 ticks and 200 ms. The old leader detects that at 6
		// ticks.
		time.Sleep(electionDelay + time.Millisecond)
		if next := e.Leader(); next == l || next == nil {
			t.Errorf("no new leader after %v", time.Since(start))
		}
		if !r.exists("/a") {
			t.Error("the deposed leader stopped serving too early")
		}
		if !r.ended(tick) {
			t.Error("the deposed leader serves on")
		}
		if d := time.Since(start); d != 6*tick {
			t.Errorf("it stopped after %v", d)
		}
		next, ok := r.again(f, r.zxid)
		if !ok {
			t.Fatal("the session did not survive")
		}
		next.mustCreate("/b", 0)
		l.Heal()
		time.Sleep(time.Second)
		next, ok = next.again(l, next.zxid)
		if !ok || !next.exists("/b") {
			t.Error("the old leader has not caught up")
		}
		if next.exists("/lost") {
			t.Error("a write that had no majority was committed")
		}
		if e.Leader() == l || l.Mode() != "follower" {
			t.Errorf("the old leader is %s", l.Mode())
		}
	})
}

func TestADeposedLeaderThatWasPausedAnswersForAMoment(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 40*time.Second)
		r.mustCreate("/a", jute.FlagEphemeral)
		l.Pause()
		r.request(1, jute.OpExists, pathBody("/a", false))
		if !r.silent(6 * tick) {
			t.Error("a paused member answered")
		}
		if e.Leader() == l {
			t.Fatal("no new leader")
		}
		// The session moves to another member, where its node is deleted.
		moved, ok := r.again(f, r.zxid)
		if !ok {
			t.Fatal("the session did not survive")
		}
		moved.must(jute.OpDelete, deleteBody("/a", -1))
		l.Resume()
		if p := r.next(); p.code != jute.CodeOK {
			t.Errorf("the deposed leader does not answer a read with its old data: %+v", p)
		}
		late, ok := r.again(l, 0)
		if !ok || !late.exists("/a") {
			t.Error("the deposed leader refuses a handshake before it knows")
		}
		late.request(1, jute.OpCreate, createBody("/b", 0))
		if !late.ended(tick) {
			t.Error("the deposed leader answers a write, or serves for longer than a tick")
		}
		time.Sleep(time.Second)
		moved.must(jute.OpPing, nil)
		fresh, ok := moved.again(l, moved.zxid)
		if !ok || fresh.exists("/a") || fresh.exists("/b") {
			t.Error("the old leader has not caught up")
		}
	})
}

// The timers of a deposed leader continue: it expires sessions that are alive at the new leader.
func TestADeposedLeaderThatWasPausedTakesSessionsForOver(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 10*time.Second)
		l.Pause()
		time.Sleep(11 * time.Second)
		moved, ok := r.again(f, r.zxid)
		if !ok {
			t.Fatal("the session did not survive")
		}
		time.Sleep(4 * time.Second)
		l.Resume()
		synctest.Wait()
		if _, ok := moved.again(l, 0); ok {
			t.Error("the deposed leader takes the session for alive")
		}
		if p := moved.call(jute.OpExists, pathBody("/a", false)); p.code != jute.CodeNoNode {
			t.Errorf("the session has ended: %+v", p)
		}
	})
}

// A paused leader sends no pings, so it has no report that the session was in use.
func TestALeaderThatWasPausedEndsSessionsOfItsFollowers(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		short, long := rawSession(t, f, 2*tick), rawSession(t, f, 20*tick)
		short.mustCreate("/a", jute.FlagEphemeral)
		long.mustCreate("/b", jute.FlagEphemeral)
		l.Pause()
		for range 4 {
			time.Sleep(tick) // virtual, as all here
			for _, r := range []*raw{short, long} {
				r.must(jute.OpPing, nil)
			}
		}
		l.Resume()
		synctest.Wait()
		if nodes := e.Nodes(); len(nodes) != 1 || nodes["/b"] == 0 {
			t.Errorf("nodes: %v", nodes)
		}
		if e.Leader() != l {
			t.Error("another member leads")
		}
	})
}

// The old connection of a session that has moved is closed without a reply at its next write.
func TestASessionMoves(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		for name, c := range map[string]struct{ from, to *Member }{
			"from follower to follower": {f, g}, "from leader to follower": {l, f}, "from follower to leader": {g, l},
		} {
			old := rawSession(t, c.from, 10*time.Second)
			next, ok := old.again(c.to, old.zxid)
			if !ok {
				t.Fatalf("%s: the session did not move", name)
			}
			if c.from != l && old.exists("/none") {
				t.Errorf("%s: a read at a follower did not go on", name)
			}
			old.request(3, jute.OpCreate, createBody("/lost", 0))
			if p := old.next(); p.code != 1 {
				t.Errorf("%s: answered %+v", name, p)
			}
			next.mustCreate("/kept", 0)
			if nodes := e.Nodes(); len(nodes) != 1 {
				t.Errorf("%s: nodes %v", name, nodes)
			}
			next.must(jute.OpDelete, deleteBody("/kept", -1))
			next.must(jute.OpCloseSession, nil)
		}
	})
}

func TestALeaderChangeGivesSessionsTheirFullTime(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		start := time.Now()
		r := rawSession(t, g, 10*time.Second) // expires at 12 s
		time.Sleep(9 * time.Second)
		l.Kill()
		if !r.ended(0) {
			t.Error("a follower without a leader serves")
		}
		time.Sleep(electionDelay + time.Millisecond)
		if e.Leader() == nil {
			t.Fatal("no new leader")
		}
		time.Sleep(time.Until(start.Add(19999 * time.Millisecond)))
		if len(e.Sessions()) != 1 {
			t.Error("the session did not get a full timeout")
		}
		time.Sleep(2 * time.Millisecond)
		if len(e.Sessions()) != 0 {
			t.Error("the session got more than its timeout")
		}
	})
}

// The log is kept for a member that is behind, and trimmed when all have applied it.
func TestTheLogIsTrimmed(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 40*time.Second)
		r.mustCreate("/a", 0)
		f.Kill()
		for i := range 2*trimEvery + 1 {
			if i == trimEvery+1 {
				f.Restart()
				time.Sleep(time.Second) // virtual: it joins
			}
			r.mustCreate("/a/n-", jute.FlagSequential)
		}
		if n := len(f.tree.nodes["/a"].children); n != 2*trimEvery+1 || len(e.log) > trimEvery {
			t.Errorf("the member that was behind has %d nodes, and %d entries are left", n, len(e.log))
		}
	})
}

// Faults come and go in random order: no answered write is lost, and in the end all members have
// the same state.
func TestFaultsInARow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	bubble(t, Config{Members: 5, Random: rand.New(rand.NewPCG(seed, 1))}, func(t *testing.T, e *Ensemble) {
		random := rand.New(rand.NewPCG(seed, 2))
		m := e.Members()
		rawSession(t, m[0], 40*time.Second).mustCreate("/a", 0)
		over := make(chan struct{})
		written := make(chan []string)
		for n := range uint64(4) {
			go func() { written <- write(t, m, rand.New(rand.NewPCG(seed, 3+n)), over) }()
		}
		steps := []func(*Member){
			(*Member).Kill, (*Member).Pause, (*Member).Isolate, (*Member).Restart, (*Member).Resume, (*Member).Heal,
			(*Member).Restart, (*Member).Resume, (*Member).Heal, // so that usually a majority is up
			func(m *Member) { m.Lag(time.Second) }, func(m *Member) { m.Lag(0) }, func(m *Member) { e.Elect(m) },
		}
		for range 300 {
			steps[random.IntN(len(steps))](m[random.IntN(len(m))])
			check(t, e)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			check(t, e)
		}
		for _, m := range m {
			m.Resume()
			m.Heal()
			m.Restart()
			m.Lag(0)
		}
		time.Sleep(time.Minute)
		close(over)
		var all []string
		for range 4 {
			all = append(all, <-written...)
		}
		synctest.Wait()
		if len(all) < 50 {
			t.Errorf("only %d writes were answered", len(all))
		}
		for _, m := range m {
			if !m.serves() || m.applied != e.end() || !reflect.DeepEqual(m.tree.stats(), e.members[0].tree.stats()) {
				t.Errorf("member %d: serves %t, received %d, applied %d of %d", m.id, m.serves(), m.received, m.applied, e.end())
			}
			nodes := m.Nodes()
			for _, path := range all {
				if _, ok := nodes[path]; !ok {
					t.Errorf("member %d has lost %s", m.id, path)
				}
			}
		}
	})
}

// write creates nodes until over is closed, and returns the paths from the replies. When the
// connection ends, or no reply comes, it opens a session at another member.
func write(t *testing.T, m []*Member, random *rand.Rand, over chan struct{}) (paths []string) {
	var r *raw
	for {
		select {
		case <-over:
			return paths
		case <-time.After(100 * time.Millisecond): // virtual
		}
		if r == nil {
			r = rawTo(t, m[random.IntN(len(m))])
			r.nc.SetReadDeadline(time.Now().Add(5 * time.Second))
			if !r.shake(0, 0, make([]byte, 16), 40*time.Second) {
				r = nil
				continue
			}
		}
		r.nc.SetReadDeadline(time.Now().Add(5 * time.Second))
		switch p := r.call(jute.OpCreate, createBody("/a/n-", jute.FlagSequential)); p.code {
		case jute.CodeOK:
			paths = append(paths, p.string())
		case 1: // the connection has ended
			r = nil
		}
	}
}

func (t *tree) stats() map[string]stat {
	stats := map[string]stat{}
	for path, n := range t.nodes {
		stats[path] = n.stat()
	}
	return stats
}

// check asserts the invariants.
func check(t *testing.T, e *Ensemble) {
	t.Helper()
	e.lock()
	defer e.unlock()
	behind := 0
	for _, m := range e.members {
		if m.applied > m.received || m.received > e.end() {
			t.Fatalf("member %d: applied %d, received %d of %d", m.id, m.applied, m.received, e.end())
		}
		if m.received < e.end() {
			behind++
		}
		if m.role == following && m.leader == nil || m.role != leading && m.tracker != nil || !m.alive && len(m.conns) > 0 {
			t.Fatalf("member %d: role %d", m.id, m.role)
		}
		if m.role == leading && m.epoch == e.epoch && m.applied != e.end() {
			t.Fatalf("the leader has applied %d of %d", m.applied, e.end())
		}
	}
	if behind >= e.quorum() {
		t.Fatalf("%d members have not received the last transaction", behind)
	}
}
