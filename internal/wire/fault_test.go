package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
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
		for down := 50 * time.Millisecond; down < 10*time.Second; down += 110 * time.Millisecond {
			must(t, s.Kill())
			time.Sleep(down)
			if conn.State() == zk.StateHasSession {
				t.Fatal("it does not know that the server is down")
			}
			must(t, s.Restart())
			call(t, conn, longestPause)
			if conn.Session() != session {
				t.Fatalf("another session after an outage of %v", down)
			}
		}
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
	said := new(lines)
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, _ *wire.Conn) {
		p.Cut()
		call(t, conn, 20*time.Second)
		v.Expire(t, conn)
		call(t, conn, 20*time.Second)
		p.Mute()
		time.Sleep(40 * time.Second) // virtual: the handshakes have no answer
		p.Unmute()
		call(t, conn, 20*time.Second)
		for _, says := range []string{"connected to ", fmt.Sprintf("session: id=%#x, timeout=20000", uint64(conn.Session())), "connection lost: EOF", "no session: zk: session has been expired", "no session: accepted the connection, but did not answer the handshake"} {
			said.has(t, says)
		}
	}, wire.WithLogger(said))
}

// During an outage a few messages repeat. The program's logger receives each of them once in five
// seconds. Messages that differ only by the local port of a connection, or by a duration, are one
// message; messages about several servers are not.
func TestARepeatedMessageMayHaveAnotherPortOrDuration(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		said, attempts := new(lines), 0
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Second) // virtual
		defer cancel()
		_, err := wire.Connect(ctx, []string{"zk1:2181", "zk2:2181"}, 10*time.Second, wire.WithLogger(said),
			wire.WithDialer(func(context.Context, string, string) (net.Conn, error) {
				attempts++
				return nil, fmt.Errorf("read udp 10.0.0.9:%d->10.0.0.53:53: no answer for %v and %v", 40000+attempts, time.Duration(attempts)*time.Millisecond, time.Duration(attempts)*1234*time.Millisecond)
			}))
		if all := said.all(); err == nil || attempts < 50 || len(all) != 2*5 {
			t.Errorf("%d messages of %d attempts, want 10:\n%s", len(all), attempts, strings.Join(all, "\n"))
		}
	})
}

// A server whose data are lost or older than what the client has read closes each connection
// during the handshake, because the handshake states the zxid of the last reply. The client logs
// that, pauses between attempts, and resumes its session on a server that has the data. In a new
// session it has read nothing, so it uses the other server.
func TestServerThatHasLostItsData(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		const handshakes = 10
		forgetful := v.Standalone(t, venue.Options{}).Addr()
		knows := v.Servers(t)[0]
		p := v.Proxy(t, knows)
		var said lines
		conn := connect(t, v, 30*time.Second, []string{p.Addr()}, wire.WithLogger(&said), wire.WithDigestAuth("ann", "secret"))
		path := test.Path(t)
		for range 20 { // more writes than the other server has seen
			must(t, errOf(conn.Client().Create(path, nil, zk.FlagEphemeral, open)))
			must(t, conn.Client().Delete(path, -1))
		}
		session, epoch := conn.Session(), conn.Epoch()
		p.Cut()
		test.Eventually(t, 20*time.Second, "connected", func() bool { return conn.Epoch() > epoch })
		synctest.Wait() // the last reply, to the credentials, has no zxid

		p.SetTarget(forgetful)
		before, began := p.Seen(proxy.ConnectOp), time.Now()
		p.Cut()
		test.Eventually(t, 20*time.Second, "several attempts", func() bool { return p.Seen(proxy.ConnectOp) >= before+handshakes })
		if took := time.Since(began); took < handshakes*50*time.Millisecond {
			t.Errorf("%d handshakes in %v", handshakes, took)
		}
		if conn.State() == zk.StateHasSession || conn.Session() != session {
			t.Errorf("state %v, session %#x, had %#x", conn.State(), conn.Session(), session)
		}
		said.has(t, "closed the connection during the handshake")

		p.SetTarget(knows)
		call(t, conn, 20*time.Second)
		if conn.Session() != session {
			t.Error("another session")
		}

		epoch = conn.Epoch()
		p.OnRequest(func(op proxy.Op) {
			if op == proxy.ConnectOp { // the server with the data answers that the session has expired
				p.SetTarget(forgetful)
			}
		})
		v.Expire(t, conn)
		for _, what := range []string{"a new session", "its next connection"} {
			test.Eventually(t, 20*time.Second, what+" on the other server", func() bool { return conn.Epoch() > epoch })
			epoch = conn.Epoch()
			p.Cut()
		}
	})
}

// A server may refuse requests without credentials, and close the connection. This does not affect
// a client with credentials. The first call of a client without credentials returns
// zk.ErrAuthFailed. Later calls end with their connections, and run pauses between its
// attempts to connect. Only a real server can be configured to demand credentials.
func TestServerThatDemandsCredentials(t *testing.T) {
	t.Parallel()
	venue.OnReal(t, func(t *testing.T, v venue.Venue) {
		s := realzk.Standalone(t, realzk.Options{JVM: []string{"-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest"}})
		welcome := connect(t, v, 4*time.Second, []string{s.Addr()}, wire.WithDigestAuth("ann", "secret"))
		call(t, welcome, 20*time.Second)

		p := v.Proxy(t, s.Addr())
		conn := connect(t, v, 4*time.Second, []string{p.Addr()})
		if _, _, err := conn.Client().Get("/"); !errors.Is(err, zk.ErrAuthFailed) || !errors.Is(conn.LastFailure(), zk.ErrAuthFailed) {
			t.Errorf("the first call: %v, %v", err, conn.LastFailure())
		}
		test.Eventually(t, 20*time.Second, "the connection has ended", func() bool { return p.Seen(proxy.ConnectOp) > 1 })
		const handshakes = 20
		before, began := p.Seen(proxy.ConnectOp), time.Now()
		test.Eventually(t, 20*time.Second, "later calls end with connections", func() bool {
			if _, _, err := conn.Client().Get("/"); err == nil {
				t.Fatal("it answers")
			}
			return p.Seen(proxy.ConnectOp) >= before+handshakes
		})
		if took := time.Since(began); took < handshakes*5*time.Millisecond {
			t.Errorf("%d handshakes in %v", handshakes, took)
		}
	})
}

// A follower that is paused may not have reported its clients' last packets to the leader. The
// deadline must not count packets that only the follower has received: it must pass before another
// client can see the session's nodes deleted.
func TestDeadlineOnFrozenFollower(t *testing.T) {
	t.Parallel()
	const (
		tick    = 300 * time.Millisecond
		timeout = 4 * tick
	)
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		e := v.Cluster(t, 3, venue.Options{Tick: tick})
		leader, err := e.Leader()
		must(t, err)
		followers, err := e.Followers()
		must(t, err)
		witness := connect(t, v, 10*time.Second, []string{leader.Addr()})
		for round := range 60 {
			follower := followers[round%len(followers)]
			conn := connect(t, v, timeout, []string{follower.Addr()})
			session, path := conn.Session(), test.Path(t)
			conn.KeepAlive(true)
			time.Sleep(timeout/2 + time.Duration(round)*23*time.Millisecond) // virtual
			must(t, errOf(conn.Client().Create(path, nil, zk.FlagEphemeral, open)))
			_, _, vanished, err := witness.Client().GetW(path)
			must(t, err)

			must(t, follower.Pause())
			deadline := conn.Deadline(session)
			time.Sleep(time.Until(deadline) - 1) // virtual: right before the deadline
			if !conn.Alive(session) {
				t.Error("dead before its deadline")
			}
			time.Sleep(time.Nanosecond) // virtual: right at it
			if conn.Alive(session) {
				t.Error("alive at its deadline")
			}
			if len(vanished) > 0 {
				t.Fatal("the node is gone, at the deadline")
			}
			<-vanished

			must(t, follower.Resume())
			conn.Close()
			test.Eventually(t, 20*time.Second, "two followers again", func() bool {
				both, err := e.Followers()
				return err == nil && len(both) == 2
			})
		}
	})
}

// Goroutines set watches and make calls, the locks' and the program's, while the connection is cut
// again and again. The race detector shows whether go-zookeeper stores a zxid meanwhile. In real time
// goroutines and packets interleave in other ways.
func TestChaos(t *testing.T) {
	for name, at := range map[string]func(*testing.T, func(*testing.T, venue.Venue)){"virtual": venue.InMemory, "TCP": venue.OnReal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at(t, chaos)
		})
	}
}

func chaos(t *testing.T, v venue.Venue) {
	var server string
	if v.Virtual() {
		v.Latency(500 * time.Microsecond)
		server = v.Servers(t)[0]
	} else {
		server = loopback.For(t).Addr()
	}
	p := v.Proxy(t, server)
	conn := connect(t, v, 10*time.Second, []string{p.Addr()}, wire.WithDigestAuth("ann", "secret"), wire.WithDigestAuth("bob", "secret"))
	session := conn.Session()
	paths := nodes(t, conn, 3)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 64 { // more than fit into the queue of go-zookeeper, so that the watches have to wait their turn
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if n%4 == 0 {
					conn.Client().GetW(paths[0])
				}
				conn.Client().Set(paths[0], []byte{byte(i)}, -1)
				watches, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[1:], "")
				if err != nil && err != zk.ErrConnectionClosed && err != wire.ErrUnsent {
					t.Error(err)
				}
				for _, w := range watches {
					if e, fired := w.Fired(); fired && e.Type != zk.EventNotWatching {
						t.Errorf("a watch on a node that does not change hears %+v", e)
					}
				}
				conn.Client().Children(paths[0])
				reply, err := conn.Ask(t.Context(), session, wire.GetData(paths[1]))
				if err == nil && (reply.Data != nil || reply.Stat.Version != 0) || err != nil && err != zk.ErrConnectionClosed && err != wire.ErrUnsent {
					t.Errorf("%+v, %v", reply, err)
				}
			}
		})
	}
	for range 40 {
		call(t, conn, 5*time.Second)
		call(t, conn, 5*time.Second)
		p.Cut()
	}
	call(t, conn, 5*time.Second)
	close(stop)
	wg.Wait()
	if conn.Session() != session {
		t.Error("another session")
	}
}

// After a reconnect go-zookeeper sets more watches than fit into one request. Those of nodes that
// are gone fire, and the others when their nodes change.
func TestUpstreamKeepsItsWatches(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn, witness := v.Connect(t, 10*time.Second, p.Addr()), v.Connect(t, 20*time.Second)
		paths := nodes(t, witness, 1500)
		events := make([]<-chan zk.Event, len(paths))
		for i, path := range paths {
			var err error
			_, _, events[i], err = conn.Client().GetW(path)
			must(t, err)
		}
		p.Refuse()
		for i := 0; i < len(paths); i += 50 {
			must(t, witness.Client().Delete(paths[i], -1))
		}
		must(t, p.Accept())
		for i, path := range paths {
			want := zk.EventNodeDataChanged
			if i%50 == 0 {
				want = zk.EventNodeDeleted
			} else {
				set(t, witness, path)
			}
			test.Within(t, 20*time.Second, "an event", func() {
				if e := <-events[i]; e.Type != want || e.Path != path {
					t.Errorf("watch %d hears %+v", i, e)
				}
			})
		}
		if n := p.Seen(proxy.WatchesOp); n < 2 {
			t.Errorf("%d requests for all watches: too few of them to need several", n)
		}
	})
}

// go-zookeeper keeps the connection to a server that is slow, but faster than go-zookeeper's
// timeout.
func TestUpstreamWaitsForASlowServer(t *testing.T) {
	behind(t, func(t *testing.T, _ venue.Venue, p *proxy.Proxy, conn, _ *wire.Conn) {
		p.Next(proxy.ReadOp, proxy.DelayReply(time.Second))
		if _, _, err := conn.Client().Get("/"); err != nil || p.Seen(proxy.ConnectOp) != 1 {
			t.Errorf("%v, %d handshakes", err, p.Seen(proxy.ConnectOp))
		}
	})
}
