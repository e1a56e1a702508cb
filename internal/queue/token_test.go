package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/venue"
)

// Two waiters come at once, to a directory that the client may not write. The second follows the
// first: no listing tells its token, and the header of the reply has not been verified.
func TestEachGrantHasItsToken(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]bool{"headers not verified yet": false, "headers do not tell": true} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newPlaceInLine(t, v, 20*time.Second)
				_, err := x.witness.SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
				x.must(nil, err)
				if wrong {
					x.queue.client.VerifyHeaderZxid(1, 2)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var all sync.WaitGroup
				var mu sync.Mutex
				seen := map[int64]bool{}
				for range 4 {
					all.Go(func() {
						g, err := x.queue.Wait(ctx, Request{Kind: x.kind, Nodes: 1})
						if err != nil {
							t.Error(err)
							return
						}
						_, stat, err := x.witness.Get(x.queue.path(g.settled()[0]))
						if err != nil {
							t.Error(err)
						} else if g.Token() != stat.Czxid {
							t.Errorf("token %d, czxid %d", g.Token(), stat.Czxid)
						}
						mu.Lock()
						if seen[g.Token()] {
							t.Errorf("token %d twice", g.Token())
						}
						seen[g.Token()] = true
						mu.Unlock()
						time.Sleep(time.Second) // virtual: the others queue behind
						if err := g.Release(ctx); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			})
		})
	}
}
