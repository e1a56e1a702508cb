package zklocks_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/reentrant"
)

// Twenty clients take random pairs of eight locks, in random order. With All they go on for as long
// as they like; with one lock after the other they soon wait for each other, and none goes on.
func TestPairsInRandomOrderDoNotDeadlock(t *testing.T) {
	const clients, mutexes = 20, 8
	for name, c := range map[string]struct {
		take func(ctx context.Context, a, b zklocks.Locker) (release func(), err error)
		goOn bool
	}{
		"at once": {func(ctx context.Context, a, b zklocks.Locker) (func(), error) {
			h, err := zklocks.All(a, b).Lock(ctx)
			return func() { _ = h.Release(context.Background()) }, err
		}, true},
		"one after the other": {func(ctx context.Context, a, b zklocks.Locker) (func(), error) {
			first, err := a.Lock(ctx)
			if err != nil {
				return nil, err
			}
			second, err := b.Lock(ctx)
			if err != nil {
				_ = first.Release(context.Background())
				return nil, err
			}
			return func() {
				_ = second.Release(context.Background())
				_ = first.Release(context.Background())
			}, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				s.Venue.Latency(10 * time.Millisecond)
				ctx, cancel := context.WithTimeout(s.Ctx, 12*time.Second)
				defer cancel()
				begun := time.Now()
				var last [clients]atomic.Int64 // when each has held last
				var inside [mutexes]atomic.Int32
				var all sync.WaitGroup
				for i := range clients {
					conn := locks.On(s.Connect())
					var own []zklocks.Locker
					for m := range mutexes {
						own = append(own, reentrant.New(conn, s.Path+"-"+string(rune('a'+m))))
					}
					r := rand.New(rand.NewPCG(uint64(i), 1))
					all.Go(func() {
						for {
							two := r.Perm(mutexes)[:2]
							release, err := c.take(ctx, own[two[0]], own[two[1]])
							if err != nil {
								return
							}
							for _, m := range two {
								if n := inside[m].Add(1); n != 1 {
									s.Errorf("%d hold one lock", n)
								}
							}
							last[i].Store(int64(time.Since(begun)))
							time.Sleep(time.Duration(r.IntN(int(10 * time.Millisecond)))) // virtual: the hold takes a while
							for _, m := range two {
								inside[m].Add(-1)
							}
							release()
						}
					})
				}
				all.Wait()
				for i := range last {
					if idle := time.Since(begun) - time.Duration(last[i].Load()); (idle < 5*time.Second) != c.goOn {
						s.Errorf("client %d held last %v before the end", i, idle)
					}
				}
			})
		})
	}
}
