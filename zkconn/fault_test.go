package zkconn_test

import (
	"bytes"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/link"
	"github.com/zklocks/zklocks/internal/zktest"
)

// A restarted server has its session back at once: no second of sleep, no new session. Now and then a server that is
// starting swallows a handshake, which costs its limit once: hence the median.
func TestRestartedServer(t *testing.T) {
	s := zktest.Standalone(t, zktest.Options{})
	conn := connect(t, 20*time.Second, []string{s.Addr()})
	session := conn.SessionID()
	var all []time.Duration
	for range 5 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		zktest.Eventually(t, 5*time.Second, "disconnected", func() bool { return conn.State() != zk.StateHasSession })
		var answered atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, _, err := conn.Get("/"); err == nil {
					answered.Store(time.Now().UnixNano())
					return
				}
			}
		}()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		<-done
		took := time.Unix(0, answered.Load()).Sub(back)
		t.Logf("answered %v after the server was back", took)
		if took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		all = append(all, took)
		if conn.SessionID() != session {
			t.Error("another session")
		}
	}
	slices.Sort(all)
	if median := all[len(all)/2]; median > 500*time.Millisecond {
		t.Errorf("median %v", median)
	}
}

// A cut alone, with the server in reach.
func TestCutReconnectsAtOnce(t *testing.T) {
	p := zktest.ProxyFor(t, zktest.Servers(t)[0])
	conn := connect(t, 20*time.Second, []string{p.Addr()})
	session, l := conn.SessionID(), link.Of(conn)
	var worst time.Duration
	for range 20 {
		epoch := l.Epoch()
		changed := l.Changed()
		start := time.Now()
		p.Cut()
		<-changed
		call(t, conn, time.Second)
		worst = max(worst, time.Since(start))
		if l.Epoch() == epoch {
			t.Error("the link did not notice the reconnect")
		}
	}
	t.Logf("worst of 20: %v", worst)
	if worst > 900*time.Millisecond { // the bare client sleeps a second
		t.Errorf("a reconnect took %v", worst)
	}
	if conn.SessionID() != session || l.Session() != session {
		t.Error("another session")
	}
}

// A frozen server accepts connections, as the kernel does that for it, and says nothing.
func TestFrozenMember(t *testing.T) {
	const (
		tick    = 200 * time.Millisecond
		sync    = 5
		timeout = 4 * time.Second
		notice  = sync * tick // until the followers give a silent leader up
		change  = 2500 * time.Millisecond

		election = 40 * time.Second // as long as the members may take for it at the very most
	)
	e := zktest.Cluster(t, 3, zktest.Options{Tick: tick, Config: map[string]string{"syncLimit": "5", "initLimit": "20"}})
	for _, which := range []string{"ours", "leader"} {
		t.Run(which, func(t *testing.T) {
			conn := connect(t, timeout, e.Addrs())
			call(t, conn, time.Second)
			session := conn.SessionID()
			frozen, err := e.Leader()
			if err != nil {
				t.Fatal(err)
			}
			if which == "ours" {
				for _, s := range e.Servers() {
					if s.Addr() == conn.Server() {
						frozen = s
					}
				}
			}
			t.Logf("connected to the one that freezes: %v", frozen.Addr() == conn.Server())
			if err := frozen.Pause(); err != nil {
				t.Fatal(err)
			}
			defer frozen.Resume()
			start := time.Now()
			elected := make(chan time.Duration, 1)
			go func() {
				// Among those that are well: now and then their election takes longer than one
				// wait for it.
				for _, err := e.Leader(); err != nil && time.Since(start) < election; _, err = e.Leader() {
				}
				elected <- time.Since(start)
			}()
			// A write, as a read would be answered by a follower without a leader.
			zktest.Eventually(t, election, "a write after the freeze", func() bool {
				_, err := conn.Set("/", nil, -1)
				return err == nil
			})
			took := time.Since(start)
			led := <-elected
			t.Logf("led by one that is well after %v, written after %v", led, took)
			if budget := max(led, notice) + change; took > budget {
				t.Errorf("took %v, more than %v", took, budget)
			}
			if conn.SessionID() != session {
				t.Error("the session was lost though two of three members are well")
			}
		})
	}
}

// Close must not wait for servers that do not answer, and must leave nothing running.
func TestCloseDuringOutage(t *testing.T) {
	type scene struct {
		server *zktest.Server
		proxy  *zktest.Proxy
		conn   *zk.Conn
	}
	for _, tc := range []struct {
		name   string
		within time.Duration // for Close itself
		outage func(t *testing.T, s scene)
	}{
		{"refused", 100 * time.Millisecond, func(t *testing.T, s scene) {
			s.proxy.Refuse()
			zktest.Eventually(t, 5*time.Second, "connecting", func() bool { return s.conn.State() == zk.StateConnecting })
		}},
		{"hangs in the handshake", 100 * time.Millisecond, func(t *testing.T, s scene) {
			if err := s.server.Pause(); err != nil {
				t.Fatal(err)
			}
			s.proxy.Cut()
			zktest.Eventually(t, 5*time.Second, "connected", func() bool { return s.conn.State() == zk.StateConnected })
		}},
		{"between two attempts", 100 * time.Millisecond, func(t *testing.T, s scene) {
			s.server.Kill()
			start := time.Now()
			zktest.Eventually(t, 5*time.Second, "long pauses", func() bool { return time.Since(start) > 1500*time.Millisecond })
		}},
		// Here the client's Close waits a second for the answer to its goodbye, as it should.
		{"muted while connected", 1100 * time.Millisecond, func(t *testing.T, s scene) { s.proxy.Mute() }},
		{"paused while connected", 1100 * time.Millisecond, func(t *testing.T, s scene) {
			if err := s.server.Pause(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := zktest.Standalone(t, zktest.Options{})
			p := zktest.ProxyFor(t, s.Addr())
			before := goleak.IgnoreCurrent()
			conn := connect(t, 30*time.Second, []string{p.Addr()})
			l := link.Of(conn)
			// Somebody waits, as always in real life, and more of them than fit into the client's queue.
			tc.outage(t, scene{s, p, conn})
			for range 10 {
				go conn.Get("/")
			}
			start := time.Now()
			conn.Close()
			took := time.Since(start)
			if took > tc.within {
				t.Errorf("Close took %v", took)
			}
			// Look before the proxy ends, which would cut what is left.
			zktest.Eventually(t, 2*time.Second, "no goroutine of the client is left", func() bool { return !clientRuns() })
			gone := time.Since(start)
			if !l.IsClosed() {
				t.Error("the link does not know that it is closed")
			}
			p.Close()
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
			t.Logf("Close took %v, all gone after %v", took, gone)
			s.Resume()
		})
	}
}

// clientRuns says whether any goroutine is in the client's or in our code.
func clientRuns() bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Contains(stacks, []byte("go-zookeeper/zk.(*Conn)")) || bytes.Contains(stacks, []byte("zkconn.(*client)"))
}

// Alive must turn false before anybody else can see the session's nodes vanish. The server is muted at some moment, so
// that the client does not know what the server knows.
func TestDeadlineBeforeExpiry(t *testing.T) {
	const timeout = time.Second
	s := zktest.Standalone(t, zktest.Options{})
	witness := connect(t, 10*time.Second, []string{s.Addr()})
	for round := range 4 {
		p := zktest.ProxyFor(t, s.Addr())
		conn := connect(t, timeout, []string{p.Addr()})
		l, session := link.Of(conn), conn.SessionID()
		path := zktest.Path(t)
		if _, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		// Heartbeats, as the locks send them, for a while that differs from round to round.
		end := time.Now().Add(time.Duration(round) * 170 * time.Millisecond)
		zktest.Eventually(t, 10*time.Second, "heartbeats", func() bool {
			sent := time.Now()
			if _, err := conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}); err == nil {
				l.Proved(session, sent)
			}
			return time.Now().After(end)
		})
		_, _, vanished, err := witness.ExistsW(path)
		if err != nil {
			t.Fatal(err)
		}
		p.Mute()
		// Looking all the time: the first look that finds the session dead is the moment.
		var dead time.Time
		for dead.IsZero() {
			select {
			case <-vanished:
				t.Fatalf("round %d: the node is gone, and the session still alive, deadline in %v", round, time.Until(l.Deadline(session)))
			default:
			}
			if !l.Alive(session) {
				dead = time.Now()
			}
		}
		<-vanished
		t.Logf("round %d: dead %v before the node vanished", round, time.Since(dead))
	}
}
