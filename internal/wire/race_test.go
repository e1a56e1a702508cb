package wire_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// Goroutines set watches and make calls, the locks' and the program's, while the connection is cut
// again and again. Under the race detector this shows whether go-zookeeper stores the zxid of a reply
// while it sets its watches again. The test also runs in real time,
// where goroutines and packets interleave in other ways.
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
	said := new(lines)
	conn := connect(t, v, 10*time.Second, []string{p.Addr()}, wire.WithLogger(said),
		wire.WithDigestAuth("ann", "secret"), wire.WithDigestAuth("bob", "secret"))
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
	if s := strings.Join(said.all(), "\n"); strings.Contains(s, "unknown request") || strings.Contains(s, "Xid < 0") {
		t.Errorf("the client says:\n%s", s)
	}
}
