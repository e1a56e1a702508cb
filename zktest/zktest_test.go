package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

var acl = zk.WorldACL(zk.PermAll)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// eventually waits until a call succeeds: clients reconnect by themselves.
func eventually(t *testing.T, within time.Duration, call func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) { // virtual in bubbles, real in others: each call asks a server
		if err = call(); err == nil {
			return
		}
	}
	t.Fatalf("not within %v: %v", within, err)
}

func exists(conn *zk.Conn, path string) func() error {
	return func() error {
		ok, _, err := conn.Exists(path)
		if err == nil && !ok {
			err = zk.ErrNoNode
		}
		return err
	}
}

// answers returns the time until conn's next request is answered, and its error.
func answers(conn *zk.Conn) (took time.Duration, err error) {
	began := time.Now()
	_, _, err = conn.Exists("/")
	return time.Since(began), err
}

// reconnects waits until conn's requests are answered again.
func reconnects(t *testing.T, within time.Duration, conn *zk.Conn) {
	t.Helper()
	eventually(t, within, func() error { _, err := answers(conn); return err })
}

func ephemeral(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	_, err := conn.Create(path, nil, zk.FlagEphemeral, acl)
	must(t, err)
}

// plain connects by zk.Connect. The caller may close the connection.
func plain(t testing.TB, s *zktest.Server, h *zktest.Host, timeout time.Duration) *zk.Conn {
	conn, _, err := zk.Connect(s.Addrs(), timeout, zk.WithDialer(h.DialTimeout), zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Error(err)
	}
	return conn
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// rtt is the time that a request and its reply travel.
const rtt = 100 * time.Microsecond

func TestOneWayPartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		a, witness := s.Host("a"), s.Host("b").Connect(t, 10*time.Second).Client()
		for _, c := range []struct {
			link zktest.Link
			path string
			done bool
		}{{a.Requests(), "/requests", false}, {a.Replies(), "/replies", true}} {
			conn := a.Connect(t, 10*time.Second).Client()
			c.link.Partition()
			if _, err := conn.Create(c.path, nil, 0, acl); !errors.Is(err, zk.ErrConnectionClosed) {
				t.Errorf("%s: %v", c.path, err)
			}
			if done, _, err := witness.Exists(c.path); err != nil || done != c.done {
				t.Errorf("%s: the server has done it: %v, %v", c.path, done, err)
			}
			c.link.Heal()
			reconnects(t, 20*time.Second, conn)
		}
	})
}

func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		a := s.Host("a")
		conn := a.Connect(t, 10*time.Second).Client()
		other := s.Host("b").Connect(t, 10*time.Second).Client()
		for _, c := range []struct {
			what string
			set  func()
			want time.Duration
		}{
			{"both ways", func() { a.Delay(time.Second) }, 2*time.Second + rtt},
			{"no more", func() { a.Delay(0) }, rtt},
			{"one way", func() { a.Replies().Delay(time.Second) }, time.Second + rtt},
			{"to one member", func() { a.Heal(); a.To(s.Members()[0]).Delay(3 * time.Second) }, 6*time.Second + rtt},
			{"healed", func() { a.Heal(); time.Sleep(10 * time.Second) }, rtt}, // no packet overtakes a late ping
		} {
			c.set()
			if took, err := answers(conn); err != nil || took != c.want {
				t.Errorf("%s: %v after %v, want %v", c.what, err, took, c.want)
			}
			if took, err := answers(other); err != nil || took != rtt {
				t.Errorf("%s: another host: %v after %v", c.what, err, took)
			}
		}
	})
}

// What ends in time leaves the session alive.
func TestFaultsThatEndInTime(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end func(*zktest.Host)
		fails      error // of a request meanwhile
	}{
		"partition": {(*zktest.Host).Partition, (*zktest.Host).Heal, zk.ErrConnectionClosed},
		"freeze":    {(*zktest.Host).Freeze, (*zktest.Host).Thaw, nil},
		"cut":       {(*zktest.Host).Freeze, func(a *zktest.Host) { a.Cut(); a.Thaw() }, zk.ErrConnectionClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := zktest.NewServer(t).Host("a")
				conn := a.Connect(t, 10*time.Second).Client()
				ephemeral(t, conn, "/e")
				session := conn.SessionID()
				c.begin(a)
				time.AfterFunc(3*time.Second, func() { c.end(a) })
				if took, err := answers(conn); !errors.Is(err, c.fails) || took.Round(time.Millisecond) != 3*time.Second {
					t.Errorf("%v after %v", err, took)
				}
				eventually(t, 2*time.Second, exists(conn, "/e"))
				if conn.SessionID() != session {
					t.Error("another session")
				}
			})
		})
	}
}

func TestRefuseAndAccept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		a := s.Host("a")
		conn := a.Connect(t, 20*time.Second).Client()
		a.Refuse()
		time.Sleep(time.Second)
		for _, addr := range s.Addrs() {
			if c, err := a.Dial(t.Context(), "tcp", addr); err == nil {
				c.Close()
				t.Error("not refused")
			}
		}
		if conn.State() == zk.StateHasSession {
			t.Error("the connection was not cut")
		}
		a.Accept()
		reconnects(t, 2*time.Second, conn)
	})
}

// A paused server does nothing: the client is notified of the expiry after Resume.
func TestExpire(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprint("paused ", paused), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				c, other := s.Host("a").Connect(t, 20*time.Second), s.Host("b").Connect(t, 20*time.Second).Client()
				ephemeral(t, c.Client(), "/e")
				session := c.Client().SessionID()
				_, _, events, err := other.ExistsW("/e")
				must(t, err)
				m := s.Members()[0]
				if paused {
					m.Pause()
				}
				began := time.Now()
				s.Expire(c)
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %v", took)
				}
				time.Sleep(time.Millisecond) // virtual: for an event to arrive
				if len(events) == 0 != paused {
					t.Errorf("paused %v, %d events", paused, len(events))
				}
				m.Resume()
				if e := <-events; e.Type != zk.EventNodeDeleted {
					t.Errorf("%v", e)
				}
				reconnects(t, 5*time.Second, c.Client())
				if id := c.Client().SessionID(); id == session {
					t.Error("the same session")
				}
			})
		})
	}
}

// A dial to a dead member is held up by a partition or a delay, and arrives when the member has
// been restarted.
func TestADialThatLastsUntilTheRestartIsBehindTheHostsFaults(t *testing.T) {
	for name, d := range map[string]struct{ hinder, let func(*zktest.Host) }{
		"partition": {func(a *zktest.Host) { a.Partition() }, func(a *zktest.Host) { a.Heal() }},
		"delay":     {func(a *zktest.Host) { a.Delay(time.Second) }, func(a *zktest.Host) {}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				a, m := s.Host("a"), s.Members()[0]
				m.Kill()
				d.hinder(a)
				dialed := make(chan net.Conn, 1)
				go func() {
					conn, err := a.Dial(t.Context(), "tcp", s.Addrs()[0])
					if err != nil {
						t.Error(err)
					}
					dialed <- conn
				}()
				synctest.Wait()
				m.Restart()
				d.let(a)
				conn := <-dialed
				if conn == nil {
					return
				}
				defer conn.Close()
				a.Refuse() // ends the host's connections
				must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
				if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the connection goes around the host's proxy: %v", err)
				}
			})
		})
	}
}

// A client in memory has the address of its own machine.
func TestAnACLOfTheClientsAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		conn := zktest.NewServer(t).Host("a").Connect(t, 10*time.Second).Client()
		for ip, want := range map[string]error{"127.0.0.1": nil, "10.0.0.1": zk.ErrNoAuth} {
			path := "/" + ip
			_, err := conn.Create(path, nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "ip", ID: ip}})
			must(t, err)
			if _, _, err := conn.Get(path); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", ip, err, want)
			}
		}
	})
}

func TestRestartKeepsDataAndSessions(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run("", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := zktest.NewServer(t, zktest.WithMembers(members))
				conn := s.Host("a").Connect(t, 20*time.Second).Client()
				ephemeral(t, conn, "/e")
				session := conn.SessionID()
				s.Restart()
				eventually(t, 20*time.Second, exists(conn, "/e"))
				if conn.SessionID() != session {
					t.Error("another session")
				}
			})
		})
	}
}

// Concurrent restarts of a member have the effect of one, or of one after the other.
func TestRestartsThatMeet(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t, zktest.WithMembers(5))
	m := s.Members()[0]
	for range 100 {
		var both sync.WaitGroup
		both.Go(m.Restart)
		both.Go(s.Restart)
		both.Wait()
	}
}

func TestOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		s := zktest.NewServer(t, zktest.WithTick(100*time.Millisecond), zktest.WithVersion("3.8.0"),
			zktest.WithContainerCheck(time.Second), zktest.WithSeed(7), zktest.WithLog(func(s string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, s)
			}))
		a := s.Host("a")
		conn := a.Connect(t, 200*time.Millisecond).Client() // two ticks
		_, err := conn.CreateContainer("/c", nil, zk.FlagContainer, acl)
		must(t, err)
		_, err = conn.Create("/c/x", nil, 0, acl)
		must(t, err)
		must(t, conn.Delete("/c/x", -1))
		time.Sleep(3 * time.Second)
		if err := exists(conn, "/c")(); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("the empty container: %v", err)
		}
		_, err = conn.Create("/closed", nil, 0, zk.WorldACL(zk.PermWrite))
		must(t, err)
		must(t, exists(conn, "/closed")()) // newer versions ask for the right to read
		began := time.Now()
		a.Partition()
		other := s.Host("b").Connect(t, time.Second).Client()
		_, err = other.Create("/x", nil, 0, acl)
		must(t, err)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(told) == 0 {
			t.Error("no event of an expired session")
		}
	})
}

func TestTheSeedShiftsTheEndOfASession(t *testing.T) {
	const timeout, tick = 10 * time.Second, 2 * time.Second
	t.Parallel()
	var ends []time.Duration
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithSeed(seed))
			a, b := s.Host("a").Connect(t, timeout).Client(), s.Host("b").Connect(t, timeout).Client()
			ephemeral(t, a, "/a")
			began := time.Now()
			s.Host("a").Partition()
			_, _, gone, err := b.ExistsW("/a")
			must(t, err)
			<-gone
			ends = append(ends, time.Since(began))
		})
	}
	slices.Sort(ends)
	first, last := ends[0], ends[len(ends)-1]
	if first < timeout || last > timeout+tick+time.Millisecond || last-first < tick/2 {
		t.Errorf("sessions end %v to %v after the last packet", first, last)
	}
}

func TestMembers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		leader := s.Leader()
		if leader == nil || len(s.Members()) != 3 || len(s.Addrs()) != 3 || leader.Addr() != s.Addrs()[leader.ID()-1] {
			t.Fatalf("leader %v of %d members at %q", leader, len(s.Members()), s.Addrs())
		}
		conn := s.Host("a").Connect(t, 20*time.Second).Client()
		_, err := conn.Create("/a", nil, 0, acl)
		must(t, err)

		leader.Kill()
		eventually(t, 20*time.Second, exists(conn, "/a"))
		next := s.Leader()
		if next == leader {
			t.Error("the killed member leads")
		}
		leader.Restart()
		next.Pause()
		eventually(t, time.Minute, exists(conn, "/a"))
		next.Resume()

		time.Sleep(time.Minute)
		third := s.Members()[slices.IndexFunc(s.Members(), func(m *zktest.Member) bool { return m != s.Leader() })]
		s.Elect(third)
		if s.Leader() != third {
			t.Error("another member leads than was elected")
		}
		eventually(t, 20*time.Second, exists(conn, "/a"))

		third.Isolate()
		time.Sleep(time.Minute)
		if s.Leader() == third {
			t.Error("a member without a majority leads")
		}
		third.Heal()
		third.Restart() // while it runs
		time.Sleep(time.Minute)
		_, err = conn.Create("/b", nil, 0, acl)
		must(t, err)
	})
}

func TestHostToMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		a := s.Host("a")
		conn := a.Connect(t, 20*time.Second).Client()
		session := conn.SessionID()
		for _, m := range s.Members() {
			a.To(m).Partition()
			reconnects(t, 19*time.Second, conn)
			if conn.Server() == m.Addr() {
				t.Errorf("connected to %s, from which it is cut off", m.Addr())
			}
			a.To(m).Heal()
		}
		m := s.Members()[slices.Index(s.Addrs(), conn.Server())]
		a.To(m).Cut()
		reconnects(t, 5*time.Second, conn)
		a.To(m).Freeze()
		a.Heal() // also ends the faults of parts
		if conn.SessionID() != session {
			t.Error("another session")
		}
	})
}

func TestProgramsThatConnectThemselves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		a := s.Host("a")
		conn, err := zklocks.Connect(t.Context(), s.Addrs(), 10*time.Second, zklocks.WithDialer(a.Dial))
		must(t, err)
		defer conn.Close()
		plain, events, err := zk.Connect(s.Addrs(), 10*time.Second, zk.WithDialer(a.DialTimeout), zk.WithLogInfo(false))
		must(t, err)
		defer func() {
			plain.Close()
			for range events {
			}
		}()
		_, err = plain.Create("/x", nil, 0, acl)
		must(t, err)
		eventually(t, time.Second, exists(conn.Client(), "/x"))
		if s.Host("a") != a || a.Name() != "a" {
			t.Error("two hosts of one name")
		}
	})
}

// Connect accepts the options of zklocks.Connect, and the host still dials.
func TestConnectTakesOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		elsewhere := func(context.Context, string, string) (net.Conn, error) {
			t.Error("the caller's dialer is called")
			return nil, errors.New("no network")
		}
		conn := zktest.NewServer(t).Host("a").Connect(t, 10*time.Second, zklocks.WithDialer(elsewhere), zklocks.WithData([]byte("mine")))
		lock := rwlock.New(conn, "/lock")
		hold, err := lock.Lock(t.Context())
		must(t, err)
		if queue, err := lock.Queue(t.Context()); err != nil || len(queue) != 1 || string(queue[0].Data) != "mine" {
			t.Errorf("the queue is %v, %v", queue, err)
		}
		must(t, hold.Release(t.Context()))
	})
}

// Two connects may use one slice of options at the same time.
func TestConnectDoesNotWriteIntoTheCallersOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, s := range []*zktest.Server{zktest.NewServer(t), zktest.NewServer(t, zktest.WithHoldsLeft())} {
			opts := make([]zklocks.ConnectOption, 4)
			s.Host("a").Connect(t, 10*time.Second, opts[:0]...)
			for i, o := range opts {
				if o != nil {
					t.Errorf("option %d is overwritten", i)
				}
			}
		}
	})
}

// Outside of a bubble everything works in real time. The sessions are so long that only Expire ends
// one, even on a busy machine.
func TestInRealTime(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t)
	a := s.Host("a")
	one, two := a.Connect(t, 40*time.Second).Client(), s.Host("b").Connect(t, 40*time.Second).Client()
	ephemeral(t, one, "/e")
	_, _, gone, err := two.GetW("/e")
	must(t, err)
	a.Partition()
	answered := make(chan error, 1)
	go func() { _, err := answers(one); answered <- err }()
	select {
	case err := <-answered:
		t.Errorf("through a partition: %v", err)
	case <-time.After(100 * time.Millisecond): // real: no event shows that no answer comes
	}
	s.Expire(one)
	<-gone
	a.Heal()
	if err := <-answered; !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("after a partition in which it was lost: %v", err)
	}
	reconnects(t, 20*time.Second, one)
}

// Go 1.26 prints a goroutine's labels behind the bubble if GODEBUG has tracebacklabels=1.
func TestAGoroutineWithLabelsIsInItsBubble(t *testing.T) {
	t.Setenv("GODEBUG", "tracebacklabels=1")
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		pprof.Do(t.Context(), pprof.Labels("worker", "1"), func(context.Context) {
			s.Host("a").Connect(t, 10*time.Second)
		})
	})
}

// Two servers that start at the same instant with the same seed reject each other's sessions and
// addresses.
func TestTwoServersRejectEachOthersSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := zktest.NewServer(t), zktest.NewServer(t)
		if a, b := one.Addrs()[0], other.Addrs()[0]; a == b {
			t.Errorf("both are at %s", a)
		}
		conn := one.Host("a").Connect(t, 10*time.Second)
		bystander := other.Host("a").Connect(t, 10*time.Second)
		session := bystander.Client().SessionID()
		if session == conn.Client().SessionID() {
			t.Errorf("both have session %#x", session)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := zklocks.Connect(ctx, one.Addrs(), time.Second, zklocks.WithDialer(other.Host("a").Dial))
		if err == nil || !strings.Contains(err.Error(), "not an address of this server") {
			t.Errorf("connect to another server: %v", err)
		}
		fails(t, func(t testing.TB) {
			s := zktest.NewServer(t)
			s.Host("a").Connect(t, 10*time.Second)
			s.Expire(bystander)
		}, "no session")
	})
}

func dialReal(t *testing.T, addrs []string) *zk.Conn {
	t.Helper()
	conn, err := zklocks.Connect(t.Context(), addrs, 20*time.Second)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.Client()
}

// refuses waits until the system refuses connections to the address of a dead member. The system
// does not refuse while another test starts a process, because between fork and exec that process
// has a copy of each socket, the listening socket included.
func refuses(t *testing.T, addr string) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		c.Close()
		return errors.New("a dead member accepts")
	})
}

func TestListenTCP(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t, zktest.WithMembers(3))
	addrs := s.ListenTCP(t)
	if len(addrs) != 3 {
		t.Fatalf("addresses %q", addrs)
	}
	conn := dialReal(t, addrs)
	_, err := conn.Create("/x", nil, 0, acl)
	must(t, err)
	s.Host("a").Partition() // does not affect it
	_, err = answers(conn)
	must(t, err)

	m := s.Members()[0]
	m.Kill()
	refuses(t, addrs[0])
	m.Restart()
	c, err := net.Dial("tcp", addrs[0])
	must(t, err)
	must(t, c.Close())
	eventually(t, 20*time.Second, exists(conn, "/x"))
}

// ListenTCP returns the address of a dead member, too.
func TestListenTCPOfADeadMember(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t)
	m := s.Members()[0]
	m.Kill()
	addrs := s.ListenTCP(t)
	refuses(t, addrs[0])
	m.Restart()
	_, err := answers(dialReal(t, addrs))
	must(t, err)
}

// Connections to a host's own ports belong to that host.
func TestListenTCPOfAHost(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t)
	a := s.Host("a")
	addrs := a.ListenTCP(t)
	conn := dialReal(t, addrs)
	_, err := conn.Create("/x", nil, 0, acl)
	must(t, err)

	f := a.Next(zktest.Create, zktest.CutAfterCommit)
	if _, err := conn.Create("/y", nil, zk.FlagEphemeral, acl); !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("create: %v", err)
	}
	<-f.Fired()
	eventually(t, 20*time.Second, exists(conn, "/y"))

	a.Delay(100 * time.Millisecond)
	if took, err := answers(conn); err != nil || took < 200*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
	a.Heal()
	eventually(t, 20*time.Second, exists(conn, "/y"))
	a.Cut()
	eventually(t, 20*time.Second, exists(conn, "/y"))

	a.Partition()
	c, err := net.Dial("tcp", addrs[0]) // the system accepts, and no program answers
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Write([]byte("ruok"))
	must(t, err)
	if n, err := c.Read(make([]byte, 4)); err == nil {
		t.Errorf("%d bytes through a partition", n)
	}
	a.Heal()
	eventually(t, 20*time.Second, exists(conn, "/y"))
}

// A client that waits for a partition to end closes its connection: the connection is never made.
// Its handshake would take the session away from the client's newer connection.
func TestListenTCPOfAHostThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t)
	a := s.Host("a")
	addr := a.ListenTCP(t)[0]
	a.Partition()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	_, err = c.Write(slices.Concat([]byte{0, 0, 0, 44}, make([]byte, 44))) // the handshake of a new session
	must(t, err)
	must(t, c.Close())
	time.Sleep(100 * time.Millisecond) // real: the end of a connection goes through the system
	a.Heal()
	_, err = answers(dialReal(t, []string{addr}))
	must(t, err)
	if n := a.Seen(zktest.Handshake); n != 1 {
		t.Errorf("%d handshakes, want that of the open connection", n)
	}
}
