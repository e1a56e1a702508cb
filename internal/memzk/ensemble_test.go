package memzk

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

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

func (r *raw) exists(path string) bool {
	r.t.Helper()
	p := r.call(jute.OpExists, pathBody(path, false))
	if p.code != jute.CodeOK && p.code != jute.CodeNoNode {
		r.t.Fatalf("exists %s: %d", path, p.code)
	}
	return p.code == jute.CodeOK
}

const tick = 2 * time.Second

func TestAllMembersServeOneState(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		a, b, c := connect(t, f, 4*time.Second), connect(t, g, 4*time.Second), connect(t, l, 4*time.Second)
		_, _, created, err := b.ExistsW("/a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Create("/a", nil, zk.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		if ev := <-created; ev.Type != zk.EventNodeCreated {
			t.Errorf("event: %+v", ev)
		}
		for _, conn := range []*client{a, b, c} {
			ok, stat, err := conn.Exists("/a")
			if !ok || err != nil || stat.EphemeralOwner != a.SessionID() {
				t.Errorf("exists: %t %+v %v", ok, stat, err)
			}
		}
		if zxid := l.Zxid(); zxid>>32 != 1 || f.Zxid() != zxid || g.Zxid() != zxid {
			t.Errorf("zxids: %x %x %x", f.Zxid(), g.Zxid(), zxid)
		}
		time.Sleep(time.Minute)
		if n := len(e.Sessions()); n != 3 {
			t.Errorf("%d sessions of 3 are left after a minute of pings", n)
		}
	})
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
		if p := behind.call(jute.OpSync, appendString(nil, "/")); p.code != jute.CodeOK || p.string() != "/" {
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
		behind.request(1, jute.OpSync, appendString(nil, "/first"))
		synctest.Wait() // the sync was read: the next request is another packet in the same buffer
		behind.request(2, jute.OpExists, pathBody("/other", false))
		if p := behind.next(); p.xid != 1 || p.string() != "/first" {
			t.Errorf("the sync that waits: %+v", p)
		}
		behind.next()

		// A client's own write is answered when its member shows it, and reads wait behind it.
		start = time.Now()
		behind.request(1, jute.OpCreate, createBody("/b", "", 0))
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

func TestAClientThatHasSeenMoreIsRefused(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		f.Lag(3 * time.Second)
		r := rawSession(t, l, 10*time.Second)
		r.mustCreate("/a", 0)
		if _, ok := r.again(f, r.zxid); ok {
			t.Error("a member that is behind took the client")
		}
		time.Sleep(3*time.Second + time.Millisecond)
		if _, ok := r.again(f, r.zxid); !ok {
			t.Error("a member that has caught up refused the client")
		}
	})
}

// A follower reports the use of a session with its answer to the leader's ping, twice a tick.
func TestTouchesReachTheLeaderWithThePing(t *testing.T) {
	for name, c := range map[string]struct {
		used, over time.Duration // since the start of the leader
	}{
		// Opened at 0: the timer is set at once, and again by the ping at 1 s.
		"never":                 {0, 6 * time.Second},
		"just before a ping":    {1900 * time.Millisecond, 8 * time.Second},
		"just after a ping":     {2100 * time.Millisecond, 8 * time.Second},
		"in a bucket's last ms": {3999 * time.Millisecond, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
				r := rawSession(t, f, 4*time.Second)
				time.Sleep(c.used)
				if c.used > 0 && r.call(jute.OpPing, nil).xid != jute.XidPing {
					t.Error("no answer to a ping")
				}
				time.Sleep(c.over - c.used - time.Millisecond)
				if len(e.Sessions()) != 1 {
					t.Error("the session ended too early")
				}
				time.Sleep(2 * time.Millisecond)
				if len(e.Sessions()) != 0 {
					t.Error("the session is still there")
				}
			})
		})
	}
}

// A ping that was due while a follower was cut off arrives before everything that the leader sends
// later.
func TestAPingThatWasDueMeanwhileComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, over time.Duration // when the follower is cut off, and when the session ends
	}{
		"at 3 s":   {2950 * time.Millisecond, 3050 * time.Millisecond, 8 * time.Second},
		"no ping":  {2910 * time.Millisecond, 2920 * time.Millisecond, 6 * time.Second},
		"two long": {2950 * time.Millisecond, 4050 * time.Millisecond, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
				r := rawSession(t, f, 4*time.Second)
				time.Sleep(2900 * time.Millisecond) // virtual: shortly before the leader's ping
				r.call(jute.OpPing, nil)
				time.Sleep(c.from - e.now()) // virtual: the follower has a use to report
				f.Isolate()
				time.Sleep(c.to - e.now()) // virtual: pings are due meanwhile, or none is
				f.Heal()
				f.Isolate()
				time.Sleep(c.over - e.now() - time.Millisecond) // virtual: right before the end
				if len(e.Sessions()) != 1 {
					t.Error("the session ended too early")
				}
				time.Sleep(2 * time.Millisecond) // virtual: right after it
				if len(e.Sessions()) != 0 {
					t.Error("the session is still there")
				}
			})
		})
	}
}

func TestAnIsolatedFollowerAnswersReadsWhileItsSessionsExpire(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r, other := rawSession(t, f, 4*time.Second), rawSession(t, l, 40*time.Second)
		r.mustCreate("/a", jute.FlagEphemeral)
		f.Isolate()
		for range 9 {
			time.Sleep(time.Second)
			if p := r.call(jute.OpPing, nil); p.code != jute.CodeOK {
				t.Fatalf("ping: %+v", p)
			}
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

func TestAHandshakeWithAnIsolatedFollowerHangs(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 10*time.Second)
		f.Isolate()
		next := rawTo(t, f)
		next.sendConnect(0, r.session, r.secret, 10*time.Second)
		if !next.silent(3 * time.Second) {
			t.Error("the follower answered for the leader")
		}
		f.Heal()
		if !next.welcomed() {
			t.Error("the follower did not ask the leader")
		}
		if p := next.call(jute.OpCreate, createBody("/a", "", 0)); p.code != jute.CodeOK {
			t.Errorf("create: %+v", p)
		}
	})
}

func TestALeaderWithoutMajorityCommitsNothing(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 10*time.Second)
		f.Isolate()
		r.mustCreate("/a", 0) // two of three
		g.Isolate()
		r.request(1, jute.OpCreate, createBody("/b", "", 0))
		r.request(2, jute.OpExists, pathBody("/b", false))
		if !r.silent(3 * time.Second) {
			t.Error("a write without a majority was answered, or a read overtook it")
		}
		// Other connections still read, connect and close.
		o, ok := rawSession2(t, l)
		if ok {
			t.Error("a new session without a majority")
		}
		o.nc.Close()
		f.Heal()
		if p := r.next(); p.xid != 1 || p.code != jute.CodeOK {
			t.Errorf("the write: %+v", p)
		}
		if p := r.next(); p.xid != 2 || p.code != jute.CodeOK {
			t.Errorf("the read: %+v", p)
		}
	})
}

// rawSession2 reports whether a handshake is answered within a second.
func rawSession2(t *testing.T, m *Member) (*raw, bool) {
	r := rawTo(t, m)
	r.sendConnect(0, 0, make([]byte, 16), 10*time.Second)
	return r, !r.silent(time.Second)
}

// A sync needs no majority, but waits for earlier writes that need one.
func TestASyncWithoutMajority(t *testing.T) {
	bubble(t, Config{Members: 5}, func(t *testing.T, e *Ensemble) {
		m := e.Members()
		f, l := m[0], m[4]
		at, writer := rawSession(t, f, 20*time.Second), rawSession(t, l, 20*time.Second)
		for _, m := range m[1:4] {
			m.Isolate()
		}
		if p := at.call(jute.OpSync, appendString(nil, "/")); p.code != jute.CodeOK {
			t.Errorf("sync: %+v", p)
		}
		writer.request(1, jute.OpCreate, createBody("/a", "", 0))
		synctest.Wait()
		at.request(2, jute.OpSync, appendString(nil, "/"))
		at.request(3, jute.OpExists, pathBody("/a", false))
		if !at.silent(time.Second) {
			t.Error("the sync did not wait")
		}
		m[1].Heal()
		if p := at.next(); p.xid != 2 || p.code != jute.CodeOK {
			t.Errorf("sync: %+v", p)
		}
		if p := at.next(); p.xid != 3 || p.code != jute.CodeOK {
			t.Errorf("exists: %+v", p)
		}
		if p := at.call(jute.OpPing, nil); p.xid != jute.XidPing {
			t.Errorf("ping: %+v", p)
		}
	})
}

func TestTheLogTellsWhatHappens(t *testing.T) {
	var mu sync.Mutex
	var told []string
	tell := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, s)
	}
	bubble(t, Config{Members: 3, Log: tell}, func(t *testing.T, e *Ensemble) {
		m := e.Members()
		r := rawSession(t, m[0], 4*time.Second)
		m[2].Kill()
		time.Sleep(time.Second)
		m[2].Restart()
		time.Sleep(20 * time.Second)
		if len(e.Sessions()) != 0 {
			t.Error("the session has not expired")
		}
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{"member 3 leads", "member 3 dies", "member 3 starts", "member 3 follows", fmt.Sprintf("0x%x expires", r.session)} {
			if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("nothing about %q in %q", want, told)
			}
		}
	})
}

func TestAnIsolatedLeaderIsDeposed(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		start := time.Now()
		r := rawSession(t, l, 40*time.Second)
		r.mustCreate("/a", 0)
		l.Isolate()
		r.request(1, jute.OpCreate, createBody("/lost", "", 0))
		for time.Since(start) < 5*tick {
			reader, ok := r.again2(l)
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

func (r *raw) again2(m *Member) (*raw, bool) {
	r.t.Helper()
	return r.again(m, r.zxid)
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
		if p := moved.call(jute.OpDelete, deleteBody("/a", -1)); p.code != jute.CodeOK {
			t.Fatalf("delete: %+v", p)
		}
		l.Resume()
		if p := r.next(); p.code != jute.CodeOK {
			t.Errorf("the deposed leader does not answer a read with its old data: %+v", p)
		}
		late, ok := r.again(l, 0)
		if !ok || !late.exists("/a") {
			t.Error("the deposed leader refuses a handshake before it knows")
		}
		late.request(1, jute.OpCreate, createBody("/b", "", 0))
		if !late.ended(tick) {
			t.Error("the deposed leader answers a write, or serves for longer than a tick")
		}
		time.Sleep(time.Second)
		if p := moved.call(jute.OpPing, nil); p.code != jute.CodeOK {
			t.Errorf("ping: %+v", p)
		}
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

// The client sets its watches again at the member to which it moves, and receives the events that
// it has missed.
func TestAClientMovesWithItsWatches(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		c, other := connect(t, f, 10*time.Second), rawSession(t, l, 10*time.Second)
		session := c.SessionID()
		_, _, missed, err := c.ExistsW("/missed")
		if err != nil {
			t.Fatal(err)
		}
		_, _, later, err := c.ExistsW("/later")
		if err != nil {
			t.Fatal(err)
		}
		f.Lag(time.Minute)
		other.mustCreate("/missed", 0)
		if f.Watches() != 2 {
			t.Errorf("%d watches", f.Watches())
		}
		c.moveTo(g)
		if ev := <-missed; ev.Type != zk.EventNodeCreated || ev.Path != "/missed" {
			t.Errorf("event: %+v", ev)
		}
		if at := e.Connected()[session]; at != g || f.Watches() != 0 || g.Watches() != 1 {
			t.Errorf("at member %d, with %d and %d watches", at.ID(), f.Watches(), g.Watches())
		}
		other.mustCreate("/later", 0)
		if ev := <-later; ev.Type != zk.EventNodeCreated || ev.Path != "/later" {
			t.Errorf("event: %+v", ev)
		}
	})
}

func TestALeaderThatIsPausedShortlyLeadsOn(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		at, r := rawSession(t, f, 10*time.Second), rawSession(t, l, 10*time.Second)
		l.Pause()
		at.request(1, jute.OpCreate, createBody("/a", "", 0))
		r.request(1, jute.OpCreate, createBody("/b", "", 0))
		if !at.silent(4*tick) || !r.silent(0) {
			t.Error("a write without the leader was answered")
		}
		l.Resume()
		if p := at.next(); p.code != jute.CodeOK {
			t.Errorf("create: %+v", p)
		}
		if p := r.next(); p.code != jute.CodeOK {
			t.Errorf("create: %+v", p)
		}
		if e.Leader() != l {
			t.Error("another member leads")
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
				if p := r.call(jute.OpPing, nil); p.code != jute.CodeOK {
					t.Fatalf("ping: %+v", p)
				}
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

// Nothing crosses an isolation, not even the end of a connection.
func TestTheEndOfAnIsolatedLeaderIsNotDetected(t *testing.T) {
	for name, end := range map[string]func(l *Member){
		"killed": (*Member).Kill, "restarted": func(l *Member) { l.Kill(); l.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
				r := rawSession(t, f, 20*tick)
				l.Isolate()
				start := time.Now()
				end(l)
				for time.Since(start) < 5*tick {
					if p := r.call(jute.OpPing, nil); p.code != jute.CodeOK {
						t.Fatalf("ping: %+v", p)
					}
					time.Sleep(tick / 4) // virtual: the session is in use
				}
				time.Sleep(electionDelay + time.Millisecond)
				if next := e.Leader(); next == nil || next == l {
					t.Error("no member leads")
				}
			})
		})
		t.Run(name+" and reached again", func(t *testing.T) {
			trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
				l.Isolate()
				end(l)
				time.Sleep(tick)
				l.Heal()
				time.Sleep(electionDelay + time.Millisecond)
				if e.Leader() == nil {
					t.Error("no member leads")
				}
			})
		})
	}
}

// An isolated leader cannot detect that the others have elected another leader.
func TestAnIsolatedLeaderServesOnWhenAnotherIsElected(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 20*tick)
		r.mustCreate("/a", 0)
		l.Isolate()
		start := time.Now()
		if !e.Elect(f) {
			t.Fatal("not elected")
		}
		if !r.ended(10 * tick) {
			t.Error("the deposed leader serves on")
		}
		if d := time.Since(start); d < 5*tick || d > 6*tick {
			t.Errorf("it served for %v more", d)
		}
		if e.Leader() != f {
			t.Error("another member leads")
		}
		l.Heal()
		time.Sleep(tick) // virtual: the member joins within a tick
		if l.Mode() != "follower" {
			t.Errorf("the old leader is %s", l.Mode())
		}
	})
}

// A leader drops each follower five ticks after that follower's last packet.
func TestALeaderMissesEachFollowerInItsTime(t *testing.T) {
	bubble(t, Config{Members: 5}, func(t *testing.T, e *Ensemble) {
		m := e.Members()
		l := m[4]
		until := func(quarters time.Duration) { time.Sleep(quarters*tick/4 - e.now()) } // virtual
		leads := func(want bool) {
			t.Helper()
			if got := l.Mode() == "leader"; got != want {
				t.Errorf("leads after %v: %v", e.now(), got)
			}
		}
		m[0].Isolate()
		m[0].Kill()
		until(16)
		m[1].Isolate()
		until(18)
		m[1].Kill()
		until(19)
		m[2].Kill() // the leader detects this: two of its four followers remain in its count
		m[3].Kill()
		until(23)
		leads(true)
		until(25) // the leader checks once a tick
		leads(false)
	})
}

func TestAPausedFollowerCatchesUp(t *testing.T) {
	for name, pause := range map[string]time.Duration{"shortly": 4 * tick, "until it is given up": 7 * tick} {
		t.Run(name, func(t *testing.T) {
			trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
				at, r := rawSession(t, f, 40*time.Second), rawSession(t, l, 40*time.Second)
				if p := at.call(jute.OpExists, pathBody("/a", true)); p.code != jute.CodeNoNode {
					t.Fatalf("exists: %+v", p)
				}
				f.Pause()
				r.mustCreate("/a", 0)
				if !at.silent(pause) {
					t.Error("a paused member answered")
				}
				f.Resume()
				if name == "shortly" {
					if kind, path := at.next().event(); kind != eventCreated || path != "/a" {
						t.Errorf("event %d of %s", kind, path)
					}
					if !at.exists("/a") {
						t.Error("it has not caught up")
					}
					return
				}
				if !at.ended(0) {
					t.Error("the follower serves though its leader has given it up")
				}
				time.Sleep(time.Second)
				next, ok := at.again(f, r.zxid)
				if !ok || !next.exists("/a") {
					t.Error("it has not caught up")
				}
			})
		})
	}
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
			old.request(3, jute.OpCreate, createBody("/lost", "", 0))
			if p := old.next(); p.code != 1 {
				t.Errorf("%s: answered %+v", name, p)
			}
			next.mustCreate("/kept", 0)
			if nodes := e.Nodes(); len(nodes) != 1 {
				t.Errorf("%s: nodes %v", name, nodes)
			}
			if p := next.call(jute.OpDelete, deleteBody("/kept", -1)); p.code != jute.CodeOK {
				t.Errorf("%s: delete: %+v", name, p)
			}
			if p := next.call(jute.OpCloseSession, nil); p.code != jute.CodeOK {
				t.Errorf("%s: close: %+v", name, p)
			}
		}
	})
}

func TestANewConnectionOfASessionEndsTheOldOne(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		for _, m := range []*Member{f, l} {
			old := rawSession(t, m, 10*time.Second)
			next, ok := old.again(m, old.zxid)
			if !ok || !old.ended(0) || next.exists("/none") {
				t.Errorf("member %d", m.ID())
			}
			// Even a handshake with a wrong password closes the older connection.
			wrong := rawTo(t, m)
			if wrong.shake(0, next.session, make([]byte, 16), 10*time.Second) {
				t.Errorf("member %d takes any password", m.ID())
			}
			if !next.ended(0) {
				t.Errorf("member %d keeps the old connection", m.ID())
			}
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

func TestElectHandsLeadershipOver(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 10*time.Second)
		r.mustCreate("/a", jute.FlagEphemeral)
		if !e.Elect(f) || e.Leader() != f {
			t.Fatal("the first member does not lead")
		}
		if !r.ended(0) {
			t.Error("the connection did not drop")
		}
		// Until there is a transaction, only the leader has the first zxid of the epoch. The other
		// members refuse a client that has seen this zxid.
		if f.Zxid() != 2<<32 || g.Zxid() != 1<<32+2 {
			t.Errorf("zxids %x, %x", f.Zxid(), g.Zxid())
		}
		if _, ok := r.again(g, f.Zxid()); ok {
			t.Error("a follower takes a client that has seen the new epoch")
		}
		next, ok := r.again(g, r.zxid)
		if !ok || !next.exists("/a") {
			t.Error("the session did not survive")
		}
		if zxid := next.call(jute.OpCreate, createBody("/b", "", 0)).zxid; zxid != 2<<32+1 {
			t.Errorf("zxid %x", zxid)
		}
		l.Isolate()
		g.Pause()
		if e.Elect(l) || e.Elect(g) || e.Elect(f) {
			t.Error("a member leads without a majority")
		}
	})
}

func TestALeaderIsOneThatHasReceivedTheMost(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		f.Isolate()
		r := rawSession(t, l, 40*time.Second)
		r.mustCreate("/a", 0)
		f.Heal()
		f.Isolate()
		r.mustCreate("/b", 0)
		l.Kill()
		f.Heal()
		time.Sleep(time.Second)
		if e.Leader() != g {
			t.Error("a member leads that does not have the last transaction")
		}
		if len(f.Nodes()) != 2 {
			t.Errorf("the follower has %v", f.Nodes())
		}
		l.Restart()
		time.Sleep(time.Second)
		if l.Mode() != "follower" || len(l.Nodes()) != 2 {
			t.Errorf("the restarted member is %s and has %v", l.Mode(), l.Nodes())
		}
	})
}

// The log is not kept forever: a member that was away for long copies another member's state. A
// follower that lags needs each transaction, for the watches of its clients.
func TestAMemberThatIsFarBehindCopiesTheState(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		e.keep, e.trimEvery = 50, 10
		r := rawSession(t, l, 40*time.Second)
		watcher := rawSession(t, g, 40*time.Second)
		if p := watcher.call(jute.OpExists, pathBody("/a/n-0000000150", true)); p.code != jute.CodeNoNode {
			t.Fatalf("%+v", p)
		}
		r.mustCreate("/e", jute.FlagEphemeral)
		r.mustCreate("/a", 0)
		if p := r.call(jute.OpCreateContainer, createBody("/c", "", jute.FlagContainer)); p.code != jute.CodeOK {
			t.Fatalf("%+v", p)
		}
		f.Kill()
		g.Lag(5 * time.Second)
		for range 300 {
			r.mustCreate("/a/n-", jute.FlagSequential)
		}
		if len(e.log) < 300 {
			t.Errorf("%d entries are left, and a follower needs 300", len(e.log))
		}
		r.call(jute.OpDelete, deleteBody("/a/n-0000000150", -1))
		time.Sleep(5*time.Second + time.Millisecond)
		if kind, path := watcher.next().event(); kind != eventCreated || path != "/a/n-0000000150" {
			t.Errorf("event %d of %s", kind, path)
		}
		for range 20 {
			r.call(jute.OpDelete, deleteBody("/a/n-0000000007", -1))
		}
		time.Sleep(5*time.Second + time.Millisecond)
		for range 20 {
			r.call(jute.OpDelete, deleteBody("/a/n-0000000007", -1))
		}
		if len(e.log) > 60 || e.base <= f.applied {
			t.Fatalf("the log has %d entries from %d on, the dead member has applied %d", len(e.log), e.base, f.applied)
		}
		f.Restart()
		time.Sleep(time.Second)
		e.Expire(r.session)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		for _, m := range []*Member{f, g} {
			if m.applied != e.end() || !reflect.DeepEqual(m.tree.stats(), l.tree.stats()) {
				t.Errorf("member %d has %d nodes, the leader %d", m.id, len(m.Nodes()), len(l.Nodes()))
			}
			if len(m.tree.containers) != 1 || len(m.tree.ephemerals) != 0 || len(m.tree.sessions) != len(l.tree.sessions) {
				t.Errorf("member %d: %+v", m.id, m.tree)
			}
		}
	})
}

func TestWithoutMajorityThereIsNoLeader(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		r := rawSession(t, l, 40*time.Second)
		f.Kill()
		g.Kill()
		if !r.ended(tick) {
			t.Error("a leader alone serves on")
		}
		if e.Leader() != nil {
			t.Error("a leader without a majority")
		}
		if _, err := f.Word("ruok"); err == nil {
			t.Error("a dead member answers")
		}
		f.Restart()
		time.Sleep(time.Second)
		if e.Leader() == nil {
			t.Error("a majority has no leader")
		}
		if _, ok := r.again(f, r.zxid); !ok {
			t.Error("the session did not survive")
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
		keeper := connect(t, m[0], 40*time.Second)
		if _, err := keeper.Create("/a", nil, 0, open); err != nil {
			t.Fatal(err)
		}
		const writers = 4
		written := make(chan []string, writers)
		over := make(chan struct{})
		for range writers {
			c := connect(t, m[random.IntN(len(m))], 40*time.Second)
			c.wander(m, rand.New(rand.NewPCG(seed, random.Uint64())))
			go func() {
				var paths []string
				for {
					select {
					case <-over:
						written <- paths
						return
					case <-time.After(100 * time.Millisecond):
					}
					if path, err := c.Create("/a/n-", nil, zk.FlagSequence, open); err == nil {
						paths = append(paths, path)
					}
				}
			}()
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
		if e.Leader() == nil {
			t.Fatal("no leader")
		}
		close(over)
		var all []string
		for range writers {
			all = append(all, <-written...)
		}
		synctest.Wait()
		if len(all) < 50 {
			t.Errorf("only %d writes were answered", len(all))
		}
		for _, m := range m {
			if !m.serves() || m.applied != e.end() {
				t.Errorf("member %d: serves %t, received %d, applied %d of %d", m.id, m.serves(), m.received, m.applied, e.end())
			}
			nodes := m.Nodes()
			for _, path := range all {
				if _, ok := nodes[path]; !ok {
					t.Errorf("member %d has lost %s", m.id, path)
				}
			}
			if !reflect.DeepEqual(m.tree.stats(), m.e.members[0].tree.stats()) {
				t.Errorf("members %d and 1 differ", m.id)
			}
		}
	})
}

// wander makes the client choose a random member at each connection.
func (c *client) wander(m []*Member, random *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pick = func() *Member { return m[random.IntN(len(m))] }
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

// A member without a leader does not keep its lag: it receives everything at once from the next
// leader, whose log may begin later by then.
func TestAMemberThatLagsAndLosesItsLeaderCatchesUp(t *testing.T) {
	trio(t, func(t *testing.T, e *Ensemble, f, g, l *Member) {
		e.keep, e.trimEvery = 50, 10
		r := rawSession(t, l, 40*time.Second)
		f.Lag(time.Minute)
		r.mustCreate("/0", 0)
		f.Isolate()
		time.Sleep(30 * time.Second) // virtual: the member has detected it
		for i := range 200 {
			r.mustCreate(fmt.Sprintf("/0/%d", i), 0)
		}
		time.Sleep(time.Minute) // virtual: the end of the lag
		f.Heal()
		time.Sleep(30 * time.Second) // virtual: the member joins
		if f.Zxid() != l.Zxid() || f.Mode() != "follower" {
			t.Errorf("%s at %x, the leader at %x", f.Mode(), f.Zxid(), l.Zxid())
		}
	})
}
