package wire_test

import (
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// These tests check what a Client assumes of go-zookeeper, github.com/go-zookeeper/zk. A new version
// that behaves differently fails here and not in a program. Other assumptions have tests elsewhere:
// Close returns while calls are in progress (TestCloseDuringOutage).

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var open = zk.WorldACL(zk.PermAll)

func TestUpstreamKeepsItsSessionOverMembersAndLostQuorums(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		e := v.Cluster(t, 3, venue.Options{})
		conn := v.Connect(t, 60*time.Second, e.Addrs()...)
		session, first := conn.Session(), conn.Server()
		writes := func() { // which needs the quorum
			t.Helper()
			test.Eventually(t, 20*time.Second, "a write", func() bool {
				_, err := conn.Client().Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
				return err == nil
			})
		}
		for _, s := range e.Servers() {
			if s.Addr() == first {
				must(t, s.Kill())
				writes() // on another member
				must(t, s.Restart())
			}
		}
		for _, s := range e.Servers() {
			must(t, s.Kill())
		}
		test.Eventually(t, 10*time.Second, "disconnected", func() bool { return conn.State() != zk.StateHasSession })
		var two sync.WaitGroup // are a quorum
		for _, s := range e.Servers()[:2] {
			two.Go(func() {
				if err := s.Restart(); err != nil {
					t.Error(err)
				}
			})
		}
		two.Wait()
		writes()
		if conn.Session() != session {
			t.Error("another session")
		}
	})
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
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := v.Connect(t, 10*time.Second, p.Addr())
		p.Next(proxy.ReadOp, proxy.DelayReply(time.Second))
		if _, _, err := conn.Client().Get("/"); err != nil {
			t.Error(err)
		}
		if n := p.Seen(proxy.ConnectOp); n != 1 {
			t.Errorf("%d handshakes", n)
		}
	})
}

func errOf(_ string, err error) error { return err }
