package queue

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// A waiter touches the directory; but not in a long queue, if no reader watches for that and the
// connection tells the token without.
func TestAClaimTouchesTheDirectory(t *testing.T) {
	for _, tc := range []struct {
		name     string
		verified bool // the token in the reply's header
		mode     Mode
		crowded  int32 // touches by a waiter that comes into a long queue
	}{
		{"readers watch", true, Write, 1},
		{"no reader watches", true, Permit, 0},
		{"no reader watches, the header does not tell the token", false, Permit, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newTestQueue(t, v, 20*time.Second)
				if !tc.verified {
					x.queue.client.VerifyHeaderZxid(1, 2)
				}
				x.queue.cfg.Names = Names{{znode.Lock, tc.mode}}
				e := Request{Kind: znode.Lock, Nodes: 1}
				queued := make(chan struct{}, 9)
				x.queue.cfg.Observers = []observe.Observer{{Queued: func(observe.Queued) { queued <- struct{}{} }}}
				var before int32
				touches := func() (n int32) {
					x.Helper()
					_, dir, err := x.witness.Get(x.queue.dir)
					x.must(nil, err)
					n, before = dir.Version-before, dir.Version
					return n
				}
				wants := func(want int32, who string) {
					x.Helper()
					if n := touches(); n != want {
						x.Errorf("%s touches the directory %d times, want %d", who, n, want)
					}
				}
				come := func(inLine int) chan *Grant {
					c := make(chan *Grant, 1)
					go func() {
						defer close(c)
						ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
						defer cancel()
						if p, err := x.queue.Acquire(ctx, e, true); err == nil {
							c <- p
						}
					}()
					x.until("in line", func() bool { return len(test.Children(x, x.witness, x.queue.dir)) == inLine })
					if inLine > 1 {
						test.Within(x, 20*time.Second, "it has read its listing", func() { <-queued })
					}
					return c
				}
				leave := func(c chan *Grant) {
					x.Helper()
					p := <-c
					if p == nil {
						x.Fatal("not granted")
					}
					x.must(nil, p.Release(context.Background()))
				}

				leave(come(1))
				wants(1, "the first")
				blocker, err := x.witness.Create(x.queue.dir+"/_c_00000000-0000-0000-0000-000000000000-lock-", nil,
					zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				x.must(nil, err)
				a := come(2)
				wants(1, "who comes into a line that was empty")
				b := come(3)
				wants(tc.crowded, "who comes into a long line")
				x.must(nil, x.witness.Delete(blocker, -1))
				leave(a)
				leave(b) // lists a line with no other node
				touches()
				leave(come(1))
				wants(1, "who comes when all have gone")
				x.queue.crowded.Store(true)
				tried, err := x.queue.Acquire(x.Context(), e, false)
				x.must(nil, err)
				x.must(nil, tried.Release(x.Context()))
				wants(1, "who tries, and sees that all have gone,")
			})
		})
	}
}
