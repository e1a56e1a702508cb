package hammer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/reentrant"
)

func mutexes(conn *zklocks.Conn, j *job) func(*worker, int) {
	locks := make([]*reentrant.Mutex, len(j.Paths))
	for i, path := range j.Paths {
		locks[i] = reentrant.New(conn, path)
	}
	return func(w *worker, path int) {
		ctx, cancel := w.wait()
		defer cancel()
		m := locks[path]
		called, try := history.Now(), w.chance(8)
		if w.broken(breakGrant) {
			w.stay(path, called, 0).writing(func() { w.look(fake{}) })
			return
		}
		how := m.Lock
		if try {
			how = m.TryLock
		}
		h, err := how(ctx)
		if w.failed(ctx, try, err) {
			return
		}
		if w.broken(breakEarly) {
			w.release(h.Release)
			w.stay(path, called, 0).writing(func() { w.look(fake{}) })
			return
		}
		r := &recursion{worker: w, mutex: m}
		r.stay = w.stay(path, called, w.token(h))
		last := h.Release
		r.writing(func() {
			w.dwell(20, 4*time.Millisecond)
			w.look(h)
			last = r.again(h, w.random.IntN(4))
		})
		if n := m.HoldCount(); n != 1 {
			w.wrong(fmt.Sprintf("the goroutine has %d holds, not 1", n))
		}
		w.release(last)
		if n := m.HoldCount(); n != 0 {
			w.wrong(fmt.Sprintf("the goroutine has %d holds after the last release", n))
		}
	}
}

// recursion is one owner that takes the lock again and again.
type recursion struct {
	*worker
	*stay
	mutex *reentrant.Mutex
}

// again re-enters depth times, and returns the release of the hold that is left: any of them may be
// the last.
func (r *recursion) again(outer *zklocks.Hold, depth int) func(context.Context) error {
	w := r.worker
	if depth == 0 {
		return outer.Release
	}
	if w.chance(3) {
		r.join(outer)
	}
	h, err := r.mutex.Lock(context.Background())
	if err != nil {
		w.wrong("re-entry: " + err.Error())
		return outer.Release
	}
	w.count("re-entered")
	r.visit.again()
	span := r.begin(history.Exclusive, 0)
	if h.Token() != outer.Token() {
		w.wrong("a re-entry with another token")
	}
	last := r.again(h, depth-1)
	first := outer.Release
	if w.chance(2) {
		first, last = last, first
	}
	if err := first(context.Background()); err != nil {
		w.wrong("release of one of several: " + err.Error())
	}
	r.visit.again()
	span.End()
	return last
}

// join has other goroutines enter with the context of the hold.
func (r *recursion) join(outer *zklocks.Hold) {
	w := r.worker
	ctx := outer.Context(context.Background())
	var joined sync.WaitGroup
	for range 2 {
		joined.Go(func() {
			h, err := r.mutex.Lock(ctx)
			if err != nil {
				w.wrong("join: " + err.Error())
				return
			}
			w.count("joined")
			span := r.begin(history.Exclusive, 0)
			r.visit.again()
			if n := r.mutex.HoldCount(); n != 1 {
				w.wrong(fmt.Sprintf("who joins has %d holds, not 1", n))
			}
			span.End()
			if err := h.Release(ctx); err != nil {
				w.wrong("release by one who joined: " + err.Error())
			}
		})
	}
	joined.Wait()
}

func TestReentrant(t *testing.T) {
	r := hammer(t, fromEnv(t), job{Recipe: "reentrant"})
	r.right(t)
	r.fought(t, "exclusive", "re-entered", "joined", "busy", "canceled", "released in the background")
	if r.crossings < 5*r.Processes {
		t.Errorf("%d hand-overs between processes: too few to mean anything", r.crossings)
	}
}
