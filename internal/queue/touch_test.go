package queue

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// A waiter writes the directory's data: a writer because readers that share a node watch them, and
// waiters of other modes for the Stat in the reply. Readers do not.
func TestAClaimTouchesTheDirectory(t *testing.T) {
	for _, tc := range []struct {
		name string
		mode Mode
		want int32 // touches by each waiter
	}{
		{"a writer", Write, 1},
		{"a mutex", Mutex, 1},
		{"a permit", Permit, 1},
		{"a reader", Read, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newTestQueue(t, v, 20*time.Second)
				x.queue.cfg.Names = Names{{znode.Lock, tc.mode}}
				version := func() int32 {
					x.Helper()
					_, dir, err := x.witness.Get(x.queue.dir)
					x.must(nil, err)
					return dir.Version
				}
				request := Request{Kind: znode.Lock, Nodes: 1}
				for i := range 3 { // into an empty queue, then behind others
					before := version()
					all, _, err := enqueue(x.Context(), []Part{{Queue: x.queue, Request: request}}, true)
					x.must(nil, err)
					x.Cleanup(all[0].lease.End)
					if n := version() - before; n != tc.want {
						x.Errorf("behind %d: it touches the directory %d times, want %d", i, n, tc.want)
					}
				}
			})
		})
	}
}
