package hammer

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/semaphore"
)

const permits = 8

type permitHold interface {
	held
	Release(context.Context) error
}

func semaphores(conn *zklocks.Conn, j *job) func(*worker, int) {
	locks := make([]*semaphore.Semaphore, len(j.Paths))
	for i, path := range j.Paths {
		locks[i] = semaphore.New(conn, path, j.Permits)
	}
	return func(w *worker, path int) {
		ctx, cancel := w.wait()
		defer cancel()
		called := history.Now()
		n, try := 1+w.random.IntN(3), w.chance(8)
		h, err := permitAcquire(ctx, w, locks[path], n, try)
		if w.failed(ctx, try, err) {
			return
		}
		if w.broken(breakEarly) {
			w.release(h.Release)
			h = fake{}
		}
		w.stay(path, called, w.token(h)).taking(n, func() { w.dwell(2, 10*time.Millisecond); w.look(h) })
		w.release(h.Release)
	}
}

func permitAcquire(ctx context.Context, w *worker, s *semaphore.Semaphore, n int, try bool) (permitHold, error) {
	how := s.Acquire
	switch {
	case w.broken(breakGrant):
		return fake{}, nil
	case try:
		how = s.TryAcquire
	}
	return how(ctx, n)
}

func TestSemaphore(t *testing.T) {
	r := hammer(t, fromEnv(t), job{Recipe: "semaphore", Permits: permits, Ceiling: permits})
	r.right(t)
	r.fought(t, "permits", "busy", "canceled", "released in the background")
	if r.report.MaxPermits != permits || r.together < r.Processes {
		t.Errorf("at most %d permits were taken, of %d; %d beside one of another process: too few to mean anything", r.report.MaxPermits, permits, r.together)
	}
}

// The number of permits changes all the time. A holder keeps its permits.
func TestSemaphoreResized(t *testing.T) {
	const first, most, least = 4, 8, 3
	s := fromEnv(t)
	run := func() *result {
		r := hammer(t, s, job{Recipe: "semaphore", Permits: 0, Ceiling: most}, resizing(first, func(n int) int {
			return least + n%(most-least+1)
		}))
		r.right(t)
		return r
	}
	r := run()
	fought := func() bool { return r.report.MaxPermits > first && r.together >= r.Processes }
	for again := 0; again < 3 && !fought(); again++ { // on a busy machine too few holders may overlap
		r = run()
	}
	r.fought(t, "permits", "busy", "canceled", "resized")
	if !fought() {
		t.Errorf("at most %d permits were taken; %d beside one of another process: too few to mean anything", r.report.MaxPermits, r.together)
	}
}
