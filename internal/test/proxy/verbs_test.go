package proxy_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// A lost packet ends no connection: the client receives nothing until the client itself detects the
// loss.
func TestLostPackets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action    proxy.Action
		committed int
	}{{proxy.LoseRequest, 0}, {proxy.LoseReply, 1}} {
		t.Run(c.action.String(), func(t *testing.T) {
			venue.Both(t, func(t *testing.T, v venue.Venue) {
				const timeout = 3 * time.Second
				b := newBehind(t, v, timeout)
				f := b.Next(proxy.CreateOp, c.action)
				began := time.Now()
				if err := b.create(); !errors.Is(err, zk.ErrConnectionClosed) {
					t.Errorf("create: %v", err)
				}
				if took := time.Since(began); took < timeout/2 {
					t.Errorf("the client gave up after %v: something reached it", took)
				}
				fired(t, f)
				if n := b.committed(t); n != c.committed {
					t.Errorf("%d nodes, want %d", n, c.committed)
				}
				test.Eventually(t, 20*time.Second, "the next connection loses nothing", func() bool { return b.create() == nil })
			})
		})
	}
}

// All packets after a lost packet are lost, too, and Unmute cuts the connection.
func TestUnmuteCutsWhatHasLostAPacket(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, time.Minute)
		f := b.Next(proxy.CreateOp, proxy.LoseReply)
		first := async(b.create)
		fired(t, f)
		second := async(b.create)
		test.Eventually(t, 10*time.Second, "both arrive", func() bool { return b.committed(t) == 2 })
		b.Unmute()
		for _, done := range []<-chan error{first, second} {
			if err := <-done; !errors.Is(err, zk.ErrConnectionClosed) {
				t.Errorf("create: %v", err)
			}
		}
		must(t, b.create())
	})
}

func TestDelayedPackets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action    proxy.Action
		committed int // during the delay
	}{{proxy.DelayRequest(time.Second), 0}, {proxy.DelayReply(time.Second), 1}} {
		t.Run(c.action.String(), func(t *testing.T) {
			venue.Both(t, func(t *testing.T, v venue.Venue) {
				b := newBehind(t, v, 20*time.Second)
				f := b.Next(proxy.CreateOp, c.action)
				began := time.Now()
				done := async(b.create)
				fired(t, f)
				if n := b.committed(t); n != c.committed {
					t.Errorf("%d nodes under way, want %d", n, c.committed)
				}
				must(t, <-done)
				took := time.Since(began)
				if took < time.Second || v.Virtual() && took > time.Second+10*time.Millisecond {
					t.Errorf("the create took %v", took)
				}
			})
		})
	}
}

// An overloaded server answers -127 and does not execute the request.
func TestAnswer(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		must(t, b.create())
		f := b.Nth(proxy.CreateOp, 2, proxy.Answer(-127))
		early := b.Next(proxy.ConnectOp, proxy.Answer(-127))
		// The replies before and after this reply come in order, with the right results.
		var replies []<-chan error
		for range 4 {
			replies = append(replies, async(b.create))
		}
		var errs []string
		for _, done := range replies {
			if err := <-done; err != nil {
				errs = append(errs, err.Error())
			}
		}
		fired(t, f)
		if !slices.Equal(errs, []string{"unknown error: -127"}) {
			t.Errorf("four creates: %q", errs)
		}
		if n := b.committed(t); n != 4 || b.Seen(proxy.CreateOp) != 4 {
			t.Errorf("%d nodes and %d creates seen, want 4: the server did not get the one that was answered", n, b.Seen(proxy.CreateOp))
		}
		b.Cut()
		test.Eventually(t, 10*time.Second, "the handshake is answered by the server", func() bool { return b.create() == nil })
		notFired(t, early)

		// A refused request sets no watch, and a refused multi has no results.
		b.Next(proxy.ReadOp, proxy.Answer(-101))
		if _, _, _, err := b.conn.GetW(b.dir); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("get: %v", err)
		}
		b.Next(proxy.CheckOp, proxy.Answer(-102))
		if results, err := b.conn.Multi(&zk.CheckVersionRequest{Path: b.dir, Version: -1}); !errors.Is(err, zk.ErrNoAuth) || len(results) != 0 {
			t.Errorf("multi: %v, %v", results, err)
		}
		must(t, b.create())
	})
}

// A fault must strike at the reply to its own request, also if the request before has no answer
// yet: otherwise the client would use watches that no server has set.
func TestAFaultAmongRequestsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.SetLatency(time.Millisecond) // the fault strikes the second request before the first is answered
		e := memzk.Start(memzk.Config{})
		defer time.Sleep(time.Minute) // virtual: the client's goroutines end
		defer e.Stop()
		l, err := n.Listen("zk:2181")
		must(t, err)
		go func() { _ = e.Members()[0].Serve(l) }()
		host := n.Host("client")
		p := proxy.ForOn(t, host, "zk:2181")
		conn, err := wire.Connect(t.Context(), []string{p.Addr()}, 10*time.Second, wire.WithDialer(host.DialContext))
		must(t, err)
		defer conn.Close()
		for _, path := range []string{"/first", "/second"} {
			_, err := conn.Create(path, nil, 0, acl)
			must(t, err)
		}
		watches := make(map[string]*wire.Watch)
		watch := func(path string) error {
			all, err := conn.WatchNodes([]string{path}, "")
			if err == nil {
				watches[path] = all[0]
			}
			return err
		}
		p.Nth(proxy.ReadOp, 2, proxy.Answer(-127))
		first := async(func() error { return watch("/first") })
		synctest.Wait() // the first request is under way
		if err := watch("/second"); err == nil || err.Error() != "unknown error: -127" {
			t.Errorf("the request that was not forwarded: %v", err)
		}
		must(t, <-first)
		must(t, conn.Delete("/first", -1))
		wire.Wait(t.Context(), nil, watches["/first"])
		if event, _ := watches["/first"].Fired(); event.Type != zk.EventNodeDeleted {
			t.Errorf("the request that was: %v", event)
		}
	})
}

// One proxy leads to several members. A fault strikes at the member to which the client is
// connected.
func TestOneProxyForAnEnsemble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		e := memzk.Start(memzk.Config{Members: 2})
		defer time.Sleep(time.Minute) // the clients' goroutines end
		defer e.Stop()
		for _, m := range e.Members() {
			l, err := n.Listen(fmt.Sprintf("zk%d:2181", m.ID()))
			must(t, err)
			go func() { _ = m.Serve(l) }()
		}
		p := proxy.ForOn(t, n.Host("door1"), "zk1:2181")
		second, err := p.Open(n.Host("door2"), "zk2:2181")
		must(t, err)
		if p.Addr() == second {
			t.Fatalf("both addresses are %s", second)
		}
		client := n.Host("client")
		for _, addr := range []string{second, p.Addr()} {
			conn, err := wire.Connect(t.Context(), []string{addr}, 10*time.Second, wire.WithDialer(client.DialContext))
			must(t, err)
			defer conn.Close()
			f := p.Next(proxy.CreateOp, proxy.CutBefore)
			if _, err := conn.Create("/x", nil, zk.FlagEphemeral, acl); err == nil {
				t.Errorf("no error of a create that was cut at %s", addr)
			}
			fired(t, f)
		}
		p.Refuse()
		for _, addr := range []string{second, p.Addr()} {
			if _, err := client.DialContext(t.Context(), "tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial while refusing: %v", err)
			}
		}
		must(t, p.Accept())
		for _, addr := range []string{second, p.Addr()} {
			c, err := client.DialContext(t.Context(), "tcp", addr)
			must(t, err)
			c.Close()
		}
	})
}

func TestActionsHaveNames(t *testing.T) {
	for action, want := range map[proxy.Action]string{
		proxy.CutBefore:                 "cut before",
		proxy.HoldReply:                 "hold reply",
		proxy.DelayRequest(time.Second): "hold request for 1s",
		proxy.LoseReply:                 "lose reply",
		proxy.Answer(-127):              "answer -127",
	} {
		if got := action.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
