package queue

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// As TestAHolderIsToldBeforeTheSessionOfAClosedConnectionEnds, but a goroutine of the program asks
// the hold for its state at that time, and so is the first to find out.
func TestAllHoldersAreToldBeforeTheSessionOfAClosedConnectionEnds(t *testing.T) {
	t.Parallel()
	for range 10 {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			p := v.Proxy(t, v.Servers(t)[0])
			conn := v.Connect(t, 10*time.Second, p.Addr())
			path := test.Path(t)
			q, err := New(conn, path, with(Default(), lockNames))
			if err != nil {
				t.Fatal(err)
			}
			grant, err := q.Wait(t.Context(), Request{Kind: znode.Lock, Nodes: 1})
			if err != nil {
				t.Fatal(err)
			}
			parts := make([]Hold, 10_000)
			lost := make([]<-chan struct{}, len(parts))
			for i := range parts {
				parts[i].Begin(grant)
				lost[i] = parts[i].State().Lost()
			}
			var open, asked atomic.Int64
			p.OnRequest(func(op proxy.Op) {
				if op != proxy.CloseOp {
					return
				}
				asked.Add(1)
				for _, c := range lost {
					select {
					case <-c:
					default:
						open.Add(1)
					}
				}
			})
			var asker sync.WaitGroup
			asker.Go(func() {
				for grant.Err() == nil {
				}
			})
			conn.Close()
			asker.Wait()
			if asked.Load() == 0 || open.Load() > 0 {
				t.Errorf("the end of the session was asked for %d times; %d of %d holders had not been told", asked.Load(), open.Load(), len(parts))
			}
		})
	}
}
