package hostile

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// A server that works on one request at a time, and drops those that wait for more than a
// millisecond. Waiters lose their connection now and then, so the server also drops the requests by
// which their watches are set again.
func TestAServerThatThrottles(t *testing.T) {
	server := realzk.Standalone(t, realzk.Options{JVM: []string{
		"-Dzookeeper.request_throttle_max_requests=1",
		"-Dzookeeper.throttled_op_wait_time=1",
	}})
	witness := realzk.Connect(t, session, server.Addr())
	each(t, func(t *testing.T, r recipe) {
		const cycles, clients, goroutines = 50, 3, 3
		path := test.Path(t)
		before := throttled(t, server)
		work := make(chan struct{}, cycles)
		for range cycles {
			work <- struct{}{}
		}
		close(work)
		var all sync.WaitGroup
		var proxies []*proxy.Proxy
		for range clients {
			p := proxy.For(t, server.Addr())
			proxies = append(proxies, p)
			l := r.on(realzk.Connect(t, session, p.Addr()), path)
			for i := range goroutines {
				take := l.lock
				if i == 0 {
					take = l.block
				}
				all.Go(func() {
					for range work {
						h, err := take(t.Context())
						if err != nil {
							t.Error(err)
							continue
						}
						if err := h.Verify(t.Context()); err != nil {
							t.Error(err)
						}
						if err := h.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		// Cuts come now and then, at no step that matters. They come to an end: on a busy machine a
		// client may need longer than their distance to get anywhere.
		cut := time.NewTicker(50 * time.Millisecond)
		defer cut.Stop()
		for i := 0; i < 20; i++ {
			select {
			case <-cut.C:
				proxies[i%clients].Cut()
			case <-done:
			}
		}
		test.Within(t, time.Minute, "all cycles are done", func() { <-done })
		test.AssertEmpty(t, witness, path+r.below) // the clean-up in the background takes a moment
		if n := throttled(t, server) - before; n == 0 {
			t.Error("nothing was throttled")
		} else {
			t.Logf("%d requests were throttled", n)
		}
	})
}

// throttled returns how many requests a server has dropped.
func throttled(t *testing.T, server *realzk.Server) int {
	t.Helper()
	values, err := server.Mntr()
	must(t, err)
	n, err := strconv.Atoi(values["zk_throttled_ops"])
	if err != nil {
		t.Fatalf("zk_throttled_ops is %q", values["zk_throttled_ops"])
	}
	return n
}
