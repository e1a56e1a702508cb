package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// After a restart of the server the next attempt resumes the session. There is no pause
// of a second, and no new session.
func TestRestartedServer(t *testing.T) {
	t.Parallel()
	const longestPause = 400 * time.Millisecond
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		s := v.Standalone(t, venue.Options{})
		conn := connect(t, v, 20*time.Second, []string{s.Addr()})
		session := conn.Session()
		var worst time.Duration
		for down := 50 * time.Millisecond; down < 10*time.Second; down += 110 * time.Millisecond {
			must(t, s.Kill())
			time.Sleep(down)
			if conn.State() == zk.StateHasSession {
				t.Fatal("it does not know that the server is down")
			}
			must(t, s.Restart())
			worst = max(worst, call(t, conn, longestPause))
			if conn.Session() != session {
				t.Fatalf("another session after an outage of %v", down)
			}
		}
		t.Logf("answered %v after the server was back, at the latest", worst)
	})
}

// The connection is cut while the server can be reached.
func TestCutReconnectsAtOnce(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, _ *wire.Conn) {
		session := conn.Session()
		for i := range 20 {
			limit := 40 * time.Millisecond // after a connection that did not last
			if i%2 == 0 {
				time.Sleep(time.Second)
				limit = time.Millisecond // the pause before a call that was lost with its connection is repeated
			}
			epoch := conn.Epoch()
			changed := conn.Changed()
			start := time.Now()
			p.Cut()
			<-changed
			call(t, conn, time.Second)
			if took := time.Since(start); took > limit { // the bare client sleeps a second
				t.Errorf("a reconnect took %v, more than %v", took, limit)
			}
			if conn.Epoch() == epoch {
				t.Error("the link did not notice the reconnect")
			}
		}
		if conn.Session() != session {
			t.Error("another session")
		}
	})
}

// A paused server sends nothing, but its kernel accepts connections.
func TestFrozenMember(t *testing.T) {
	t.Parallel()
	const (
		tick    = 200 * time.Millisecond
		timeout = 4 * time.Second
		notice  = 2 * time.Second                 // until the followers leave a silent leader
		change  = timeout/6 + 40*time.Millisecond // a handshake with the frozen server, and pauses
	)
	for _, which := range []string{"ours", "leader"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				e := v.Cluster(t, 3, venue.Options{Tick: tick})
				var worst, closest time.Duration
				for round := range 100 {
					conn := connect(t, v, timeout, e.Addrs())
					call(t, conn, time.Second)
					session := conn.Session()
					frozen, err := e.Leader()
					must(t, err)
					if which == "ours" {
						for _, s := range e.Servers() {
							if s.Addr() == conn.Server() {
								frozen = s
							}
						}
					}
					time.Sleep(time.Duration(round) * 37 * time.Millisecond) // virtual: the last packet is that old, or younger
					must(t, frozen.Pause())
					start := time.Now()
					elected := make(chan time.Duration, 1)
					go func() {
						for {
							if l, err := e.Leader(); err == nil && l != frozen {
								elected <- time.Since(start)
								return
							}
							time.Sleep(20 * time.Millisecond) // virtual
						}
					}()
					// This must be a write, because a follower without a leader still answers a
					// read.
					test.Eventually(t, time.Minute, "a write after the freeze", func() bool {
						_, err := conn.Client().Set("/", nil, -1)
						return err == nil
					})
					took := time.Since(start)
					must(t, frozen.Resume())
					led := <-elected
					worst, closest = max(worst, took), max(closest, took-max(led, notice))
					if budget := max(led, notice) + change; took > budget {
						t.Errorf("led by one that is well after %v, written after %v, more than %v", led, took, budget)
					}
					if conn.Session() != session {
						t.Error("the session was lost though two of three members are well")
					}
					conn.Close()
					test.Eventually(t, time.Minute, "all members serve", func() bool {
						followers, err := e.Followers()
						return err == nil && len(followers) == 2
					})
				}
				t.Logf("written after %v, %v after the election, at the latest", worst, closest)
			})
		})
	}
}

// Close must not wait for servers that do not answer, and must leave no goroutine behind. Not
// parallel: the test counts goroutines.
func TestCloseDuringOutage(t *testing.T) {
	type scene struct {
		server venue.Server
		proxy  *proxy.Proxy
		conn   *wire.Conn
	}
	for _, tc := range []struct {
		name   string
		within time.Duration // for Close itself
		outage func(t *testing.T, s scene)
	}{
		{"refused", pauses, func(t *testing.T, s scene) {
			s.proxy.Refuse()
			test.Eventually(t, 5*time.Second, "connecting", func() bool { return s.conn.State() == zk.StateConnecting })
		}},
		{"hangs in the handshake", pauses, func(t *testing.T, s scene) {
			must(t, s.server.Pause())
			s.proxy.Cut()
			test.Eventually(t, 5*time.Second, "connected", func() bool { return s.conn.State() == zk.StateConnected })
		}},
		{"between two attempts", pauses, func(t *testing.T, s scene) {
			must(t, s.server.Kill())
			time.Sleep(1500 * time.Millisecond) // until there are long pauses
		}},
		// Here Close waits a second for the answer to the last request, as it should.
		{"muted while connected", time.Second + pauses, func(t *testing.T, s scene) { s.proxy.Mute() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				s := v.Standalone(t, venue.Options{})
				p := v.Proxy(t, s.Addr())
				conn := connect(t, v, 30*time.Second, []string{p.Addr()})
				// More callers wait than fit into go-zookeeper's queue.
				tc.outage(t, scene{s, p, conn})
				var waiting sync.WaitGroup
				for range 10 {
					waiting.Go(func() { _, _, _ = conn.Client().Get("/") })
				}
				start := time.Now()
				_ = conn.Close()
				took := time.Since(start)
				if took > tc.within {
					t.Errorf("Close took %v", took)
				}
				// Check before the proxy ends, which would cut the remaining connections.
				test.Eventually(t, 2*time.Second, "no goroutine of the client is left", func() bool { return !clientRuns() })
				gone := time.Since(start)
				waiting.Wait()
				if !conn.IsClosed() {
					t.Error("the link does not know that it is closed")
				}
				t.Logf("Close took %v, all gone after %v", took, gone)
			})
		})
	}
}

// clientRuns reports whether any goroutine runs code of go-zookeeper or of this package.
func clientRuns() bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Contains(stacks, []byte("go-zookeeper/zk.(*Conn)")) || bytes.Contains(stacks, []byte("wire.(*Conn)"))
}

// The log says what happens to the connection, with sessions in the notation of the servers.
func TestTheLogSaysWhatHasHappened(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		said := new(lines)
		p := v.Proxy(t, v.Servers(t)[0])
		conn := connect(t, v, 10*time.Second, []string{p.Addr()}, wire.WithLogger(said))
		p.Cut()
		call(t, conn, 20*time.Second)
		v.Expire(t, conn)
		call(t, conn, 20*time.Second)
		p.Mute()
		time.Sleep(20 * time.Second) // virtual: the handshakes have no answer
		p.Unmute()
		call(t, conn, 20*time.Second)
		log := strings.Join(said.all(), "\n")
		t.Log(log)
		for _, says := range []string{"connected to ", fmt.Sprintf("session: id=%#x, timeout=10000", uint64(conn.Session())), "connection lost: EOF", "no session: zk: session has been expired", "no session: accepted the connection, but did not answer the handshake"} {
			if !strings.Contains(log, says) {
				t.Errorf("the log does not say %q", says)
			}
		}
	})
}

// During an outage a few messages repeat. The program's logger receives each of them
// once in five seconds.
func TestAnOutageFillsNoLog(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		said := new(lines)
		p, q := v.Proxy(t, v.Servers(t)[0]), v.Proxy(t, v.Servers(t)[0])
		conn := connect(t, v, 30*time.Second, []string{p.Addr(), q.Addr()}, wire.WithLogger(said))
		p.Refuse()
		q.Refuse()
		time.Sleep(24 * time.Second) // virtual
		failures := 0
		for _, line := range said.all() {
			t.Log(line)
			if strings.HasPrefix(line, "failed to connect to ") {
				failures++
			}
		}
		if failures != 2*5 {
			t.Errorf("%d failures logged, want 10", failures)
		}
		must(t, p.Accept())
		call(t, conn, 20*time.Second)
	})
}

// Messages that differ only by the local port of a connection, or by a duration, are one message;
// messages about several servers are not.
func TestARepeatedMessageMayHaveAnotherPortOrDuration(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		said, attempts := new(lines), 0
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // virtual
		defer cancel()
		_, err := wire.Connect(ctx, []string{"zk1:2181", "zk2:2181"}, 10*time.Second, wire.WithLogger(said),
			wire.WithDialer(func(context.Context, string, string) (net.Conn, error) {
				attempts++
				return nil, fmt.Errorf("read udp 10.0.0.9:%d->10.0.0.53:53: no answer for %v and %v", 40000+attempts, time.Duration(attempts)*time.Millisecond, time.Duration(attempts)*1234*time.Millisecond)
			}))
		if all := said.all(); err == nil || attempts < 10 || len(all) != 2 {
			t.Errorf("%d messages of %d attempts, want 2:\n%s", len(all), attempts, strings.Join(all, "\n"))
		}
	})
}
