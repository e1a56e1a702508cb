package zkconn_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/zkconn"
)

// Watches are set and calls wait while the connection is cut again and again: under the race detector this shows whether the
// watches are sent again before the first reply.
func TestChaos(t *testing.T) {
	for _, auth := range []bool{false, true} {
		t.Run(fmt.Sprintf("auth=%v", auth), func(t *testing.T) {
			p := zktest.ProxyFor(t, zktest.Servers(t)[0])
			var opts []zkconn.Option
			if auth {
				opts = append(opts, zkconn.WithDigestAuth("ann", "secret"), zkconn.WithDigestAuth("bob", "secret"))
			}
			conn := connect(t, 10*time.Second, []string{p.Addr()}, opts...)
			session := conn.SessionID()
			chaos(t, conn, p)
			if conn.SessionID() != session {
				t.Error("another session")
			}
		})
	}
}

func chaos(t *testing.T, conn *zk.Conn, p *zktest.Proxy) {
	base := zktest.Path(t)
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
