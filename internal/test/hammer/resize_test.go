package hammer

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/semaphore"
)

// resizing begins with so many permits and changes their number all the time.
func resizing(first int, next func(random int) int) beside {
	return func(t *testing.T, r *result, j job) func(*history.Rules) {
		ctx := t.Context()
		conn := locks.On(realzk.Connect(t, sessionTimeout))
		var semaphores []*semaphore.Semaphore
		limits := make([][]history.Limit, len(j.Paths)) // the last one is in force
		for i, path := range j.Paths {
			s := semaphore.New(conn, path, first)
			if err := s.Resize(ctx, first); err != nil {
				t.Fatal(err)
			}
			semaphores = append(semaphores, s)
			limits[i] = []history.Limit{{Path: path, Permits: first}}
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		var changes int64
		random := j.Seed
		go func() {
			defer close(stopped)
			// Each change makes every waiter list again, so the more waiters there are the less
			// often it may come.
			pace := time.NewTicker(j.For / 20)
			defer pace.Stop()
			over := time.NewTimer(j.For)
			defer over.Stop()
			for {
				select {
				case <-stop:
					return
				case <-over.C:
					return
				case <-pace.C:
				}
				random = random*6364136223846793005 + 1442695040888963407
				i, n := int(random>>60)%len(semaphores), next(int(random>>33))
				called := history.Now()
				if err := resize(ctx, semaphores[i], n); err != nil {
					t.Errorf("resize: %v", err)
					return
				}
				changes++
				limits[i][len(limits[i])-1].Until = history.Now()
				limits[i] = append(limits[i], history.Limit{Path: j.Paths[i], Permits: n, Since: called})
			}
		}()
		return func(rules *history.Rules) {
			close(stop)
			<-stopped
			r.count("resized", changes)
			for _, l := range limits {
				rules.Limits = append(rules.Limits, l...)
			}
		}
	}
}

func resize(ctx context.Context, s *semaphore.Semaphore, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.Resize(ctx, n)
}
