package hammer

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/rwlock"
)

type rwHold interface {
	held
	Release(context.Context) error
}

func rwlocks(conn *zklocks.Conn, j *job) func(*worker, int) {
	locks := make([]*rwlock.RWMutex, len(j.Paths))
	for i, path := range j.Paths {
		locks[i] = rwlock.New(conn, path)
	}
	return func(w *worker, path int) {
		ctx, cancel := w.wait()
		defer cancel()
		called := history.Now()
		write, try := w.chance(10), w.chance(8)
		h, err := rwAcquire(ctx, w, locks[path], write, try)
		if w.failed(ctx, try, err) {
			return
		}
		if w.broken(breakEarly) {
			w.release(h.Release)
			h = fake{}
		}
		s := w.stay(path, called, w.token(h))
		if !write {
			s.reading(false, func() { w.dwell(20, 4*time.Millisecond); w.look(h) })
			w.release(h.Release)
			return
		}
		s.writing(func() { w.dwell(20, 4*time.Millisecond); w.look(h) })
		if w.chance(3) {
			if err := downgrade(locks[path], h); err != nil {
				w.wrong("downgrade: " + err.Error())
			} else {
				w.count("downgraded")
				s.reading(true, func() { w.dwell(20, 4*time.Millisecond); w.look(h) })
			}
		}
		w.release(h.Release)
	}
}

func rwAcquire(ctx context.Context, w *worker, m *rwlock.RWMutex, write, try bool) (rwHold, error) {
	how := m.RLock
	switch {
	case w.broken(breakGrant):
		return fake{}, nil
	case write && try:
		how = m.TryLock
	case write:
		how = m.Lock
	case try:
		how = m.TryRLock
	}
	return how(ctx)
}

// downgrade turns a hold into one for reading; a fake is one already.
func downgrade(m *rwlock.RWMutex, h rwHold) error {
	if h, ok := h.(*zklocks.Hold); ok {
		return m.Downgrade(context.Background(), h)
	}
	return nil
}

func TestRWLock(t *testing.T) {
	r := hammer(t, fromEnv(t), job{Recipe: "rwlock"})
	r.right(t)
	r.fought(t, "exclusive", "shared", "downgraded", "busy", "canceled", "released in the background")
	if r.crossings < r.Processes || r.together < r.Processes {
		t.Errorf("%d hand-overs between processes, %d readers beside one of another process: too few to mean anything", r.crossings, r.together)
	}
}
