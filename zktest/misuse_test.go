package zktest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// stand is a testing.TB for a test that must fail.
type stand struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (s *stand) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, text)
}

func (s *stand) Context() context.Context          { return s.ctx }
func (s *stand) Cleanup(f func())                  { s.cleanups = append(s.cleanups, f) }
func (s *stand) Errorf(format string, args ...any) { s.say(fmt.Sprintf(format, args...)) }
func (s *stand) Error(args ...any)                 { s.say(fmt.Sprint(args...)) }
func (s *stand) Fatalf(format string, args ...any) { s.Errorf(format, args...); runtime.Goexit() }
func (s *stand) Fatal(args ...any)                 { s.Error(args...); runtime.Goexit() }

// fails runs a test that must fail with one message, which contains all of the texts.
func fails(t *testing.T, test func(t testing.TB), texts ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &stand{TB: t, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			cancel()
			for _, f := range slices.Backward(s.cleanups) {
				f()
			}
		}()
		test(s)
	}()
	<-done
	if len(s.said) != 1 {
		t.Fatalf("said %q, want one message", s.said)
	}
	for _, text := range texts {
		if !strings.Contains(s.said[0], text) {
			t.Errorf("said %q, without %q", s.said[0], text)
		}
	}
}

// A connection that is left open is reported, and the bubble still ends without a panic.
func TestConnectionsLeftOpen(t *testing.T) {
	ours := func(t testing.TB) *zktest.Server {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		_, err := zklocks.Connect(t.Context(), s.Addrs(), 10*time.Second, zklocks.WithDialer(s.Host("left").Dial))
		if err != nil {
			t.Error(err)
		}
		return s
	}
	for _, c := range []struct {
		name string
		test func(t testing.TB)
	}{
		{"zklocks", func(t testing.TB) { ours(t) }},
		{"zklocks behind a partition", func(t testing.TB) {
			ours(t).Host("left").Partition()
			time.Sleep(time.Minute) // virtual: its session ends
		}},
		{"zk", func(t testing.TB) {
			s := zktest.NewServer(t)
			if _, err := answers(plain(t, s, s.Host("left"), 10*time.Second)); err != nil {
				t.Error(err)
			}
		}},
		{"zk that cannot connect", func(t testing.TB) {
			s := zktest.NewServer(t)
			s.Host("left").Refuse()
			plain(t, s, s.Host("left"), 10*time.Second)
			time.Sleep(time.Minute) // virtual: it continues to dial
		}},
		{"a network connection", func(t testing.TB) {
			s := zktest.NewServer(t)
			if _, err := s.Host("left").Dial(t.Context(), "tcp", s.Addrs()[0]); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { fails(t, c.test, `not closed`, `host "left"`, "_test.go:") })
		})
	}
	t.Run("in real time", func(t *testing.T) {
		t.Parallel()
		fails(t, func(t testing.TB) { ours(t) }, `not closed`, `host "left"`, "misuse_test.go:")
	})
}

// A connection that is being closed when the test ends is not reported.
func TestConnectionsThatAreBeingClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		a := s.Host("a")
		conn := a.Connect(t, 10*time.Second)
		foreign := plain(t, s, a, 10*time.Second)
		_, err := answers(foreign)
		must(t, err)
		a.Freeze() // closing takes a second, because no server answers
		go conn.Close()
		go foreign.Close()
	})
}

// Nor is a connection whose client waits for an answer that the test holds back for longer than the
// cleanup waits.
func TestConnectionsThatAreClosedInVain(t *testing.T) {
	for name, breaks := range map[string]func(t *testing.T, s *zktest.Server, a *zktest.Host, connect func() *zk.Conn) *zk.Conn{
		"a member is paused": func(t *testing.T, s *zktest.Server, a *zktest.Host, connect func() *zk.Conn) *zk.Conn {
			conn := connect()
			_, err := answers(conn)
			must(t, err)
			s.Members()[0].Pause()
			return conn
		},
		"the handshake is held": func(t *testing.T, s *zktest.Server, a *zktest.Host, connect func() *zk.Conn) *zk.Conn {
			held := a.Next(zktest.Handshake, zktest.HoldReply)
			conn := connect()
			<-held.Fired()
			return conn
		},
		"a reply is lost": func(t *testing.T, s *zktest.Server, a *zktest.Host, connect func() *zk.Conn) *zk.Conn {
			lost := a.Next(zktest.Exists, zktest.LoseReply)
			conn := connect()
			go answers(conn)
			<-lost.Fired()
			return conn
		},
		"all is late": func(t *testing.T, s *zktest.Server, a *zktest.Host, connect func() *zk.Conn) *zk.Conn {
			conn := connect()
			_, err := answers(conn)
			must(t, err)
			a.Delay(time.Hour)
			return conn
		},
	} {
		test := func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithTick(10*time.Minute)) // sessions of 20 minutes and more
			a := s.Host("a")
			breaks(t, s, a, func() *zk.Conn { return plain(t, s, a, time.Hour) }).Close()
		}
		t.Run(name, func(t *testing.T) { bubble(t, test) })
		t.Run(name+" in real time", func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// A zk.Conn whose session has expired drops the connection without closing it. The server has
// closed the connection, so the test need not close it.
func TestAConnectionThatItsClientForgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		conn := plain(t, s, s.Host("a"), 10*time.Second)
		defer conn.Close()
		_, err := answers(conn)
		must(t, err)
		s.Expire(conn)
		reconnects(t, 10*time.Second, conn)
	})
}

func TestWrongBubble(t *testing.T) {
	outside := zktest.NewServer(t)
	host := outside.Host("a")
	const made = "the server was made outside of this synctest bubble"
	bubble := func(f func(t *testing.T)) { synctest.Test(t, f) }

	bubble(func(t *testing.T) {
		fails(t, func(t testing.TB) { host.Connect(t, time.Second) }, "zktest: Connect", made)
		if _, err := host.Dial(t.Context(), "tcp", outside.Addrs()[0]); err == nil || !strings.Contains(err.Error(), made) {
			t.Errorf("dial: %v", err)
		}
		for name, call := range map[string]func(){
			"Partition": host.Partition, "Heal": host.Requests().Heal, "Next": func() { host.Next(zktest.Any, zktest.CutBefore) },
			"Host": func() { outside.Host("b") }, "Kill": outside.Members()[0].Kill, "Restart": outside.Restart, "Refuse": host.Refuse,
		} {
			func() {
				defer func() {
					if why := fmt.Sprint(recover()); !strings.Contains(why, made) {
						t.Errorf("%s: %s", name, why)
					}
				}()
				call()
			}()
		}
	})

	bubble(func(t *testing.T) { host = zktest.NewServer(t).Host("a") })
	bubble(func(t *testing.T) {
		fails(t, func(t testing.TB) { host.Connect(t, time.Second) }, "another synctest bubble")
	})
	fails(t, func(t testing.TB) { host.Connect(t, time.Second) }, "runs outside of it")
}

// The cleanups of another t would run after the bubble has ended.
func TestWrongT(t *testing.T) {
	synctest.Test(t, func(inner *testing.T) {
		s := zktest.NewServer(inner)
		for name, call := range map[string]func(testing.TB){
			"NewServer": func(t testing.TB) { zktest.NewServer(t) },
			"Connect":   func(t testing.TB) { s.Host("a").Connect(t, 10*time.Second) },
		} {
			fails(inner, func(stand testing.TB) { call(deadlined{stand, t}) }, "zktest: "+name, "use the t that synctest.Test passes")
		}
	})
}

// deadlined is a stand with the Deadline of a t outside of the bubble.
type deadlined struct {
	testing.TB
	t *testing.T
}

func (d deadlined) Deadline() (time.Time, bool) { return d.t.Deadline() }

func TestRealConnectionsInABubble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		fails(t, func(t testing.TB) { s.ListenTCP(t) }, "ListenTCP in a synctest bubble")
		fails(t, func(t testing.TB) { s.Host("a").ListenTCP(t) }, "ListenTCP in a synctest bubble")

		// The system refuses a client without the Host's dialer at once.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := zklocks.Connect(ctx, s.Addrs(), 10*time.Second)
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("without the dialer: %v", err)
		}
	})
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		opt  zktest.Option
		says string
	}{
		{zktest.WithMembers(0), "0 members"}, {zktest.WithMembers(-1), "-1 members"}, {zktest.WithMembers(1000), "1000 members"},
		{zktest.WithVersion("3.9"), "WithVersion"}, {zktest.WithVersion("three"), "WithVersion"}, {zktest.WithVersion("3.4.14"), "not below 3.8.0"},
		{zktest.WithTick(-time.Second), "WithTick"}, {zktest.WithContainerCheck(-time.Second), "WithContainerCheck"},
		{zktest.WithTick(0), "WithTick"}, {zktest.WithContainerCheck(0), "WithContainerCheck"},
		{zktest.WithTick(10 * time.Microsecond), "WithTick"}, // the protocol has no session timeout below a millisecond
	} {
		fails(t, func(t testing.TB) { zktest.NewServer(t, c.opt) }, c.says)
	}
	s, other := zktest.NewServer(t, nil), zktest.NewServer(t) // a nil option is ignored
	a := s.Host("a")
	for name, call := range map[string]func(){
		"no name":              func() { s.Host("") },
		"a wildcard":           func() { s.Host("*") },
		"a port":               func() { s.Host("a:1") },
		"a member's name":      func() { s.Host("zk1") },
		"no member":            func() { a.To(nil) },
		"a stranger":           func() { a.To(other.Members()[0]) },
		"no such kind":         func() { a.Next(99, zktest.CutBefore) },
		"no such kind of Seen": func() { a.Seen(-1) },
		"not the zeroth":       func() { a.Nth(zktest.Any, 0, zktest.CutBefore) },
		"nor by a function":    func() { a.Where(func(zktest.Request) bool { return true }, -1, zktest.CutBefore) },
		"no function":          func() { a.Where(nil, 1, zktest.CutBefore) },
		"no error":             func() { zktest.Answer(0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if why := fmt.Sprint(recover()); !strings.HasPrefix(why, "zktest: ") {
					t.Errorf("panics with %s", why)
				}
			}()
			call()
		})
	}
	if _, err := a.Dial(t.Context(), "tcp", "127.0.0.1:2181"); err == nil || !strings.Contains(err.Error(), "not an address of this server") {
		t.Errorf("dial: %v", err)
	}
	for _, m := range []*zktest.Member{nil, other.Members()[0]} {
		fails(t, func(t testing.TB) { zktest.NewServer(t).Elect(m) }, "cannot lead")
	}
	fails(t, func(t testing.TB) { zktest.NewServer(t).AddMember() }, "AddMember", "standalone")
	fails(t, func(t testing.TB) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		s.Members()[0].Kill()
		s.Members()[1].Kill()
		s.AddMember()
	}, "AddMember", "no leader with a majority")
	fails(t, func(t testing.TB) {
		s := zktest.NewServer(t, zktest.WithMembers(5))
		for _, m := range s.Members()[:2] { // followers: the last member leads
			m.Kill()
		}
		s.Members()[2].Remove() // would leave two of four that follow, the leader included
	}, "Remove", "no majority")
	for _, c := range []struct {
		conn any
		says string
	}{
		{noSession(0), "no session"}, {noSession(1), "no session 0x1"}, {"conn", "a string is no connection"},
		{new(zklocks.Conn), "no session"}, {(*zklocks.Conn)(nil), "no session"}, {(*zk.Conn)(nil), "no session"},
	} {
		fails(t, func(t testing.TB) { zktest.NewServer(t).Expire(c.conn) }, c.says)
	}
	fails(t, func(t testing.TB) {
		s := zktest.NewServer(t)
		s.Host("a").Connect(t, -time.Second)
	}, "host a", "session timeout")
}

type noSession int64

func (n noSession) SessionID() int64 { return int64(n) }

// A test may connect in its cleanup, when its context is canceled, to check what it has left.
func TestConnectInACleanup(t *testing.T) {
	for name, run := range map[string]func(*testing.T, func(*testing.T)){
		"in a bubble": synctest.Test, "in real time": func(t *testing.T, f func(*testing.T)) { f(t) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				t.Cleanup(func() {
					_, err := answers(s.Host("late").Connect(t, 10*time.Second).Client())
					must(t, err)
				})
			})
		})
	}
}

func forgets(t testing.TB, s *zktest.Server, path string) (*zktest.Host, *zklocks.Hold) {
	host := s.Host("left")
	mu := rwlock.New(host.Connect(t, 10*time.Second), path)
	hold, err := mu.Lock(t.Context())
	if err != nil {
		t.Error(err)
	}
	return host, hold
}

// A hold that a test does not release is reported, with the line that acquired it.
func TestHoldsLeft(t *testing.T) {
	for name, test := range map[string]func(t testing.TB){
		"one": func(t testing.TB) { forgets(t, zktest.NewServer(t), "/x") },
		"one of two that share a node": func(t testing.TB) {
			mu := rwlock.New(zktest.NewServer(t).Host("left").Connect(t, 10*time.Second), "/x")
			for _, release := range []bool{false, true} {
				hold, err := mu.RLock(t.Context())
				if err != nil {
					t.Error(err)
				}
				if release {
					_ = hold.Release(t.Context())
				}
			}
		},
		"downgraded": func(t testing.TB) {
			mu := rwlock.New(zktest.NewServer(t).Host("left").Connect(t, 10*time.Second), "/x")
			hold, err := mu.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			if err := mu.Downgrade(t.Context(), hold); err != nil {
				t.Error(err)
			}
		},
	} {
		line := "misuse_test.go:"
		if name == "downgraded" {
			line = "in the background"
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { fails(t, test, "a hold is not released", "host left", "/x, token ", line) })
		})
	}
	t.Run("in real time", func(t *testing.T) {
		t.Parallel()
		fails(t, func(t testing.TB) { forgets(t, zktest.NewServer(t), "/x") }, "a hold is not released", "write /x", "misuse_test.go:")
	})
}

// A hold is not reported if it has ended, ends in the background, or may be left.
func TestHoldsThatMayBeLeft(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"allowed": func(t *testing.T) { forgets(t, zktest.NewServer(t, zktest.WithHoldsLeft()), "/x") },
		"the connection is closed": func(t *testing.T) {
			host := zktest.NewServer(t).Host("a")
			conn := host.Connect(t, 10*time.Second)
			_, err := rwlock.New(conn, "/x").Lock(t.Context())
			must(t, err)
			must(t, conn.Close())
		},
		"cut off": func(t *testing.T) { // it is lost after the test has ended
			host, _ := forgets(t, zktest.NewServer(t), "/x")
			host.Partition()
		},
		"released in the background": func(t *testing.T) {
			leads := make(chan struct{})
			election := leader.New(zktest.NewServer(t).Host("a").Connect(t, 10*time.Second), "/x")
			go election.Run(t.Context(), func(ctx context.Context, _ *zklocks.Hold) error {
				close(leads)
				<-ctx.Done()
				return nil
			})
			<-leads
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, test) })
	}
}
