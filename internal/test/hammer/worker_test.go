package hammer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
)

// held is what the holds of all recipes have in common.
type held interface {
	Held() bool
	Token() int64
	Verify(context.Context) error
}

// chance is true once in n times.
func (w *worker) chance(n int) bool { return w.random.IntN(n) == 0 }

// wait returns the context of an acquisition: one in four gives up, at an instant between a
// microsecond and two seconds whose logarithm is uniform; some contexts have ended before the call.
func (w *worker) wait() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(context.Background(), w.until)
	switch {
	case w.chance(50):
		cancel()
		return ctx, cancel
	case w.chance(4):
		return w.givingUp(ctx, cancel, time.Microsecond, 2*time.Second)
	}
	return ctx, cancel
}

// givingUp ends ctx at an instant whose logarithm is uniform.
func (w *worker) givingUp(ctx context.Context, cancel context.CancelFunc, least, most time.Duration) (context.Context, context.CancelFunc) {
	after := time.Duration(float64(least) * math.Pow(float64(most)/float64(least), w.random.Float64()))
	timer := time.AfterFunc(after, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// failed checks the error of an acquisition that may have been given up.
func (w *worker) failed(ctx context.Context, try bool, err error) bool {
	switch {
	case err == nil:
		return false
	case time.Now().After(w.until):
		w.wrong(fmt.Sprintf("still in line long after the end: %v", err))
	case try && errors.Is(err, hold.ErrBusy):
		w.count("busy")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		w.count("canceled")
	default:
		w.wrong(fmt.Sprintf("acquire: %v", err))
	}
	return true
}

// broken reports whether to break the lock now, for the test of the test.
func (w *worker) broken(how string) bool { return w.job.Break == how && w.chance(w.job.BreakEvery) }

// token returns the hold's token, or a wrong one for the test of the test.
func (w *worker) token(h held) int64 {
	if w.broken(breakToken) {
		return max(1, h.Token()-1000)
	}
	return h.Token()
}

// dwell stays inside for a moment; once in rarely for up to most, so that other callers queue.
func (w *worker) dwell(rarely int, most time.Duration) {
	if w.chance(rarely) {
		w.linger(time.Duration(w.random.Int64N(int64(most))))
		return
	}
	stay := time.Duration(w.random.IntN(20)) * time.Microsecond
	for began := time.Now(); time.Since(began) < stay; {
		runtime.Gosched()
	}
}

func (w *worker) linger(stay time.Duration) {
	timer := time.NewTimer(stay) // real: the holder is at work
	<-timer.C
}

// look calls the hold's methods, some of the time: a hold without such a call sets no watch, which
// is another path through the code.
func (w *worker) look(h held) {
	if h == (fake{}) {
		w.linger(5 * time.Millisecond) // not entitled to be inside: let other workers come
	}
	if w.chance(10) && !h.Held() {
		w.wrong("lost, and no client took it")
	}
	if w.chance(100) {
		ctx, cancel := context.WithDeadline(context.Background(), w.until)
		defer cancel()
		if err := h.Verify(ctx); err != nil {
			w.wrong(fmt.Sprintf("verify: %v", err))
		}
	}
}

// release releases, and some of the time does not wait for the answer.
func (w *worker) release(give func(context.Context) error) {
	ctx, cancel := context.WithDeadline(context.Background(), w.until)
	defer cancel()
	impatient := w.chance(20)
	if impatient {
		cancel()
	}
	err := give(ctx)
	switch {
	case err == nil:
	case impatient && errors.Is(err, context.Canceled):
		w.count("released in the background")
	default:
		w.wrong(fmt.Sprintf("release: %v", err))
	}
}

// stay is one visit: inside runs while the hold is certain.
type stay struct {
	*worker
	path   int
	called int64
	visit  *visit
}

func (w *worker) stay(path int, called, token int64) *stay {
	return &stay{w, path, called, w.cells[path].visit(w.me, token, w.wrong)}
}

func (s *stay) begin(kind history.Kind, permits int) *history.Span {
	return s.rec.Begin(history.Hold{
		Path: s.job.Paths[s.path], Kind: kind, Permits: permits,
		Token: s.visit.token, Who: s.who, Called: s.called,
	})
}

func (s *stay) writing(inside func()) {
	s.count("exclusive")
	span := s.begin(history.Exclusive, 0)
	s.visit.write()
	inside()
	s.visit.written()
	span.End()
}

func (s *stay) reading(downgraded bool, inside func()) {
	s.count("shared")
	span := s.begin(history.Shared, 0)
	s.visit.read(downgraded)
	inside()
	s.visit.readAll()
	span.End()
}

func (s *stay) taking(n int, inside func()) {
	s.count("permits")
	span := s.begin(history.Permits, n)
	s.visit.take(n, s.job.Ceiling)
	inside()
	s.visit.give(n)
	span.End()
}

// fake is a hold without a lock.
type fake struct{}

func (fake) Held() bool                    { return true }
func (fake) Token() int64                  { return 0 }
func (fake) Verify(context.Context) error  { return nil }
func (fake) Release(context.Context) error { return nil }
