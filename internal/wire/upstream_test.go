package wire_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// These tests check what the locks assume of the client, github.com/go-zookeeper/zk, with the
// client itself and a real server. A new version that behaves differently fails here and not in a
// lock. Other assumptions have tests elsewhere: requests of one session may run in the next
// (internal/zkclient TestACreateCarriedIntoAnotherSessionIsNotOurs), the client sends credentials
// again (TestDigestAuth, TestChaos, TestFailedWrites), Close returns while calls are in progress
// (TestCloseDuringOutage).

// upstream runs a test with the bare client, and with a client of package wire.
func upstream(t *testing.T, test func(t *testing.T, v venue.Venue, bare bool, connect func(...string) *zk.Conn)) {
	t.Parallel()
	for name, by := range map[string]func(venue.Venue, testing.TB, time.Duration, ...string) *zk.Conn{
		"bare": venue.Venue.ConnectForeign,
		"wire": func(v venue.Venue, tb testing.TB, timeout time.Duration, servers ...string) *zk.Conn {
			return v.Connect(tb, timeout, servers...).Conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.Both(t, func(t *testing.T, v venue.Venue) {
				test(t, v, name == "bare", func(servers ...string) *zk.Conn { return by(v, t, 10*time.Second, servers...) })
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var open = zk.WorldACL(zk.PermAll)

// works waits until a write, which needs the quorum, succeeds.
func works(t *testing.T, conn *zk.Conn) {
	t.Helper()
	test.Eventually(t, 20*time.Second, "a write", func() bool {
		_, err := conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
		return err == nil
	})
}

func TestUpstreamKeepsItsSessionOverMembersAndLostQuorums(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		e := v.Cluster(t, 3, venue.Options{})
		sessions := make(map[*zk.Conn]int64)
		for _, conn := range []*zk.Conn{
			v.ConnectForeign(t, 60*time.Second, e.Addrs()...), v.Connect(t, 60*time.Second, e.Addrs()...).Conn,
		} {
			sessions[conn] = conn.SessionID()
			first := conn.Server()
			for _, s := range e.Servers() {
				if s.Addr() == first {
					must(t, s.Kill())
					works(t, conn) // on another member
					must(t, s.Restart())
				}
			}
		}
		for _, s := range e.Servers() {
			must(t, s.Kill())
		}
		for conn := range sessions {
			test.Eventually(t, 10*time.Second, "disconnected", func() bool { return conn.State() != zk.StateHasSession })
		}
		var two sync.WaitGroup // are a quorum
		for _, s := range e.Servers()[:2] {
			two.Go(func() {
				if err := s.Restart(); err != nil {
					t.Error(err)
				}
			})
		}
		two.Wait()
		for conn, session := range sessions {
			works(t, conn)
			if conn.SessionID() != session {
				t.Error("another session")
			}
		}
	})
}

func TestUpstreamEndsAfterClose(t *testing.T) {
	upstream(t, func(t *testing.T, v venue.Venue, bare bool, connect func(...string) *zk.Conn) {
		conn := connect()
		_, _, watch, err := conn.GetW("/")
		must(t, err)
		var readers sync.WaitGroup
		for range 4 {
			if bare {
				break // a request that meets the end of the session can hang the client's own goroutine, now and then
			}
			readers.Go(func() {
				for err := error(nil); err == nil; {
					_, _, err = conn.Get("/")
				}
			})
		}
		test.Within(t, 5*time.Second, "Close", conn.Close) // the cleanup waits for the end of the event channel, which Close ends
		test.Within(t, 5*time.Second, "a second Close", conn.Close)
		test.Within(t, 5*time.Second, "the calls under way", readers.Wait)
		if e := <-watch; e.Type != zk.EventNotWatching || !errors.Is(e.Err, zk.ErrClosing) {
			t.Errorf("a watch hears %+v", e)
		}
		test.Eventually(t, 5*time.Second, "its state says so", func() bool { return conn.State() == zk.StateDisconnected })
		test.Within(t, 5*time.Second, "a call afterwards", func() {
			if _, _, err := conn.Get("/"); !errors.Is(err, zk.ErrConnectionClosed) {
				t.Errorf("a call afterwards: %v", err)
			}
		})
	})
}

// After a reconnect the client sets more watches than fit into one request. A watch of the bare
// client fires if its node has changed meanwhile; the others fire at the end of the session. With
// package wire all watches fire, with a deletion if the node is gone.
func TestUpstreamKeepsItsWatches(t *testing.T) {
	const watches = 1500
	upstream(t, func(t *testing.T, v venue.Venue, bare bool, connect func(...string) *zk.Conn) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn, witness := connect(p.Addr()), v.Connect(t, 20*time.Second)
		dir := test.Path(t)
		must(t, errOf(witness.Create(dir, nil, 0, open)))
		path := func(i int) string { return fmt.Sprintf("%s/%s-%d", dir, strings.Repeat("long", 30), i) }
		var creates, deletes []any
		for i := range watches {
			creates = append(creates, &zk.CreateRequest{Path: path(i), Acl: open})
			if i%3 == 0 {
				deletes = append(deletes, &zk.DeleteRequest{Path: path(i), Version: -1})
			}
		}
		_, err := witness.Multi(creates...)
		must(t, err)
		channels := make([]<-chan zk.Event, watches)
		for i := range channels {
			_, _, channels[i], err = conn.GetW(path(i))
			must(t, err)
		}
		session := conn.SessionID()
		p.Refuse()
		_, err = witness.Multi(deletes...)
		must(t, err)
		must(t, p.Accept())
		hears := func(i int) (e zk.Event) {
			t.Helper()
			test.Within(t, 20*time.Second, "an event", func() { e = <-channels[i] })
			return e
		}
		for i := 0; i < watches; i += 3 {
			if e := hears(i); e.Type != zk.EventNodeDeleted || e.Path != path(i) {
				t.Fatalf("watch %d hears %+v", i, e)
			}
		}
		if n := p.Seen(proxy.WatchesOp); n < 2 {
			t.Errorf("%d requests for all watches: too few of them to need several", n)
		}
		if !bare {
			for i := range watches {
				if i%3 == 0 {
					continue
				}
				if e := hears(i); e.Type != zk.EventNodeDataChanged || e.Path != path(i) {
					t.Fatalf("watch %d hears %+v", i, e)
				}
			}
			return
		}
		for i := 1; i < watches; i += 3 {
			select {
			case e := <-channels[i]:
				t.Fatalf("watch %d hears %+v", i, e)
			default:
			}
		}
		if conn.SessionID() != session {
			t.Fatal("another session")
		}
		// Each of two watches on one node receives its event once, and then its channel is closed.
		must(t, witness.Delete(path(1), -1))
		if e := hears(1); e.Type != zk.EventNodeDeleted {
			t.Errorf("after the reconnect a watch hears %+v", e)
		}
		if _, open := <-channels[1]; open {
			t.Error("a second event")
		}
		v.Expire(t, conn)
		for i := 2; i < watches; i += 3 {
			if e := hears(i); e.Type != zk.EventNotWatching || !errors.Is(e.Err, zk.ErrSessionExpired) {
				t.Fatalf("watch %d hears %+v of the end of its session", i, e)
			}
		}
		test.Eventually(t, 10*time.Second, "a new session", func() bool {
			return conn.SessionID() != 0 && conn.SessionID() != session && conn.State() == zk.StateHasSession
		})
	})
}

// An event arrives before any answer that shows its change. A goroutine that has the answer finds
// the event in the channel.
func TestUpstreamTellsEventsBeforeAnswers(t *testing.T) {
	upstream(t, func(t *testing.T, v venue.Venue, bare bool, connect func(...string) *zk.Conn) {
		conn, witness := connect(), v.Connect(t, 20*time.Second)
		path := test.Path(t)
		for range 100 {
			must(t, errOf(witness.Create(path, nil, 0, open)))
			var watch <-chan zk.Event
			test.Eventually(t, 10*time.Second, "the node", func() (found bool) {
				var err error
				_, _, watch, err = conn.GetW(path)
				return err == nil
			})
			go witness.Delete(path, -1)
			test.Eventually(t, 10*time.Second, "an answer that shows it", func() bool {
				_, _, err := conn.Get(path)
				return errors.Is(err, zk.ErrNoNode)
			})
			select {
			case <-watch:
			default:
				t.Fatal("the node is gone, and the event not here")
			}
		}
	})
}

// Without a server the bare client fails the waiting calls. Calls on a connection of package wire
// wait for a server.
func TestUpstreamWithoutAServer(t *testing.T) {
	upstream(t, func(t *testing.T, v venue.Venue, bare bool, connect func(...string) *zk.Conn) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := connect(p.Addr())
		p.Refuse()
		test.Eventually(t, 10*time.Second, "disconnected", func() bool { return conn.State() != zk.StateHasSession })
		done := make(chan error, 1)
		go func() { _, _, err := conn.Get("/"); done <- err }()
		if bare {
			test.Within(t, 20*time.Second, "an error", func() {
				if err := <-done; !errors.Is(err, zk.ErrNoServer) {
					t.Error(err)
				}
			})
			return
		}
		if v.Virtual() {
			time.Sleep(8 * time.Second) // the session lives for 10
		}
		select {
		case err := <-done:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		must(t, p.Accept())
		test.Within(t, 20*time.Second, "the answer", func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	})
}

// The client keeps the connection to a server that is slow, but faster than the client's timeout.
func TestUpstreamWaitsForASlowServer(t *testing.T) {
	upstream(t, func(t *testing.T, v venue.Venue, bare bool, connect func(...string) *zk.Conn) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := connect(p.Addr())
		f := p.Next(proxy.ReadOp, proxy.HoldReply)
		done := make(chan error, 1)
		go func() { _, _, err := conn.Get("/"); done <- err }()
		test.Within(t, 10*time.Second, "the request", func() { <-f.Fired() })
		release := time.AfterFunc(time.Second, f.Release)
		defer release.Stop()
		test.Within(t, 10*time.Second, "the answer", func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		if n := p.Seen(proxy.ConnectOp); n != 1 {
			t.Errorf("%d handshakes", n)
		}
	})
}

// The client reads a listing above 1 MiB, at which the Java client fails. A request above 1 MiB
// fails.
func TestUpstreamTakesAListingAboveAMegabyte(t *testing.T) {
	const nodes, each = 8000, 150
	upstream(t, func(t *testing.T, v venue.Venue, bare bool, connect func(...string) *zk.Conn) {
		witness := v.Connect(t, 20*time.Second)
		dir := test.Path(t)
		must(t, errOf(witness.Create(dir, nil, 0, open)))
		for i := 0; i < nodes; i += 2000 {
			var creates []any
			for n := range 2000 {
				creates = append(creates, &zk.CreateRequest{Path: fmt.Sprintf("%s/%0*d", dir, each, i+n), Acl: open})
			}
			_, err := witness.Multi(creates...)
			must(t, err)
		}
		names, _, err := connect().Children(dir)
		if err != nil || len(names) != nodes {
			t.Errorf("%d names, %v", len(names), err)
		}
		// The server closes the connection when it has read the length. The bare client may still
		// be writing then, and returns the error of its write.
		_, err = connect().Set(dir, make([]byte, 1100<<10), -1)
		if err == nil || !bare && !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("a request of 1.1 MiB: %v", err)
		}
	})
}

// The client writes each packet with one Write. packetConn relies on it.
func TestUpstreamWritesWholePackets(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		var packets, partial atomic.Int64
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := v.Dial(ctx, network, address)
			return &counted{conn, &packets, &partial}, err
		}
		conn := connect(t, v, 4*time.Second, []string{p.Addr()}, wire.WithDigestAuth("ann", "secret"), wire.WithDialer(dial))
		path := test.Path(t)
		must(t, errOf(conn.Create(path, make([]byte, 200_000), 0, open)))
		_, _, _, err := conn.GetW(path)
		must(t, err)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}, &zk.SetDataRequest{Path: path, Version: -1})
			})
		}
		all.Wait()
		p.Cut()
		call(t, conn, 5*time.Second)
		conn.Close()
		if packets.Load() < 25 || partial.Load() != 0 {
			t.Errorf("%d of %d writes were not one packet", partial.Load(), packets.Load())
		}
	})
}

type counted struct {
	net.Conn
	packets, partial *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.packets.Add(1)
	if len(p) < 4 || int(binary.BigEndian.Uint32(p)) != len(p)-4 {
		c.partial.Add(1)
	}
	return c.Conn.Write(p)
}

func errOf(_ string, err error) error { return err }
