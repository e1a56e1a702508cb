package wire_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// Goroutines set watches and make calls while the connection is cut again and again. Under the race
// detector this shows whether the client stores the zxid of a reply while it sets its watches
// again. The test also runs in real time, where goroutines and packets interleave in other ways.
func TestChaos(t *testing.T) {
	for _, auth := range []bool{false, true} {
		for name, at := range map[string]func(*testing.T, func(*testing.T, venue.Venue)){"virtual": venue.InMemory, "TCP": venue.OnReal} {
			t.Run(fmt.Sprintf("auth=%v, %s", auth, name), func(t *testing.T) {
				t.Parallel()
				at(t, func(t *testing.T, v venue.Venue) {
					var server string
					if v.Virtual() {
						v.Latency(500 * time.Microsecond)
						server = v.Servers(t)[0]
					} else {
						server = loopback.For(t).Addr()
					}
					p := v.Proxy(t, server)
					var opts []wire.Option
					if auth {
						opts = append(opts, wire.WithDigestAuth("ann", "secret"), wire.WithDigestAuth("bob", "secret"))
					}
					conn := connect(t, v, 10*time.Second, []string{p.Addr()}, opts...)
					session := conn.SessionID()
					chaos(t, conn, p)
					if conn.SessionID() != session {
						t.Error("another session")
					}
				})
			})
		}
	}
}

func chaos(t *testing.T, conn *wire.Conn, p *proxy.Proxy) {
	base := test.Path(t)
	if _, err := conn.Create(base, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 64 { // more than fit into the queue of the client, so that the watches have to wait their turn
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if n%4 == 0 {
					conn.GetW(base)
				}
				conn.Set(base, []byte{byte(i)}, -1)
				conn.Children(base)
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
}
