package hammer

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/rwlock"
)

// several has each goroutine take all locks at once, in random order, or one of them. In a circle
// of processes that wait for each other none would get its locks before the end.
func several(conn *zklocks.Conn, j *job) func(*worker, int) {
	locks := make([]*rwlock.RWMutex, len(j.Paths))
	for i, path := range j.Paths {
		locks[i] = rwlock.New(conn, path)
	}
	return func(w *worker, path int) {
		ctx, cancel := w.wait()
		defer cancel()
		paths, read, try := w.random.Perm(len(locks)), w.chance(2), w.chance(8)
		if w.chance(3) {
			paths = []int{path}
		}
		var all []zklocks.Locker
		for i, p := range paths {
			if all = append(all, locks[p]); read && i > 0 {
				all[i] = locks[p].RLocker()
			}
		}
		lock := zklocks.All(all...)
		how := lock.Lock
		if try {
			how = lock.TryLock
		}
		called := history.Now()
		h, err := how(ctx)
		if w.failed(ctx, try, err) {
			return
		}
		w.inAll(paths, read, called, h, func() {
			w.dwell(20, 4*time.Millisecond)
			w.look(h)
		})
		w.release(h.Release)
	}
}

// inAll stays inside all of the locks; read: inside all but the first as a reader.
func (w *worker) inAll(paths []int, read bool, called int64, h *zklocks.Hold, inside func()) {
	s := w.stay(paths[0], called, w.token(h))
	s.writing(func() {
		if len(paths) == 1 {
			inside()
			return
		}
		w.count("together")
		next := w.stay(paths[1], called, w.token(h))
		if read {
			next.reading(false, inside)
		} else {
			next.writing(inside)
		}
	})
}

func TestRWLocksTogether(t *testing.T) {
	r := hammer(t, fromEnv(t), job{Recipe: "all"})
	r.right(t)
	r.fought(t, "exclusive", "shared", "together", "busy", "canceled", "released in the background")
	if r.crossings < 5*r.Processes {
		t.Errorf("%d hand-overs between processes: too few to mean anything", r.crossings)
	}
}
