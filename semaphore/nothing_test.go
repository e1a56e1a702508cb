package semaphore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/semaphore"
)

// A program may use a semaphore for each of its customers. Some time after the last release the
// server deletes the node with the number. Only WithStoredPermits keeps the number, but no watch on
// it.
func TestASemaphoreLeavesNothing(t *testing.T) {
	const keys = 100
	for name, c := range map[string]struct {
		opts []semaphore.Option
		kept int
	}{
		"the number given to New": {nil, 0},
		"the stored number":       {[]semaphore.Option{semaphore.WithStoredPermits()}, keys},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "/queue", func(s *contract.Stage) {
				conn := s.Connect()
				var nodes []string
				for i := range keys {
					sem := semaphore.New(locks.On(conn), fmt.Sprint(s.Path, "-", i), 2, c.opts...)
					first, err := sem.Acquire(s.Ctx, 1)
					s.Must(err)
					second, err := sem.Acquire(s.Ctx, 1)
					s.Must(err)
					release(s, first)
					release(s, second)
					nodes = append(nodes, fmt.Sprint(s.Path, "-", i))
				}
				s.Pass(time.Minute) // ten times as long as a container lives here
				left := 0
				for _, path := range nodes {
					exists, _, err := s.Witness.Exists(path)
					s.Must(err)
					if exists {
						left++
					}
				}
				watched := len(s.Venue.Watched(s, conn.SessionID()))
				if left != c.kept || watched != 0 {
					s.Errorf("%d nodes and %d watches are left of %d semaphores, want %d and none", left, watched, keys, c.kept)
				}
			})
		})
	}
}
