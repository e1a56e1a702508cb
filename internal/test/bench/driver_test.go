package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// acquire acquires a lock. A worker repeats it.
type acquire func(ctx context.Context, read bool) (release func() error, err error)

// session is a connection and a lock on it.
type session struct {
	worker func() acquire // for one goroutine; workers share what is meant to be shared
	close  func()
}

// libraries are the libraries that this program can drive.
var libraries = map[string]func(ctx context.Context, j job) (*session, error){
	ours:      openOurs,
	again:     openReentrant,
	kept:      keeping(openOurs),
	keptAgain: keeping(openReentrant),
	zkLock:    openZkLock,
}

// drive runs a driver, and returns the exit code.
func drive(library string) int {
	fmt.Println("hello", runtime.Version())
	lines := realzk.Lines()
	for line := range lines {
		if line == "bye" {
			break
		}
		if err := work(library, line, lines); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println("closed")
	}
	fmt.Println("left")
	return 0
}

// work does a job. lines receives the parent's "go" and "end".
func work(library, order string, lines <-chan string) error {
	var j job
	if err := json.Unmarshal([]byte(order), &j); err != nil {
		return fmt.Errorf("told %q: %w", order, err)
	}
	ctx := context.Background()
	sessions := make([]*session, j.Sessions)
	for i := range sessions {
		own := j
		if j.Own > 0 {
			own.Path = lockOf(j.Path, i)
		}
		s, err := libraries[library](ctx, own)
		if err != nil {
			return err
		}
		defer s.close()
		sessions[i] = s
	}
	var now atomic.Int32 // before, during or after the measured time
	crew := make([]*worker, j.Workers)
	for i := range crew {
		take := sessions[i%j.Sessions].worker()
		if j.InTurn > 0 {
			take = inTurn(sessions)
		}
		crew[i] = &worker{job: j, acquire: take, random: rand.New(rand.NewPCG(uint64(i), 7)), now: &now}
	}
	// The first cycle creates directories and initializes the objects.
	for i := range min(j.Sessions, j.Workers) {
		if crew[i].cycle(ctx); crew[i].err != nil {
			return crew[i].err
		}
		crew[i].cycles = 0
	}
	fmt.Println("ready")
	if word := <-lines; word != "go" {
		return fmt.Errorf("told %q, want go", word)
	}
	text, err := json.Marshal(run(ctx, j, crew, &now))
	if err != nil {
		return err
	}
	fmt.Println("done", string(text))
	if word := <-lines; word != "end" {
		return fmt.Errorf("told %q, want end", word)
	}
	return nil
}

// inTurn returns an acquire that uses the sessions in turn.
func inTurn(sessions []*session) acquire {
	var all []acquire
	for _, s := range sessions {
		all = append(all, s.worker())
	}
	next := 0
	return func(ctx context.Context, read bool) (func() error, error) {
		next = (next + 1) % len(all)
		return all[next](ctx, read)
	}
}

const (
	before = iota
	during
	after
)

// run has the crew work, and counts what it does in the measured time.
func run(ctx context.Context, j job, crew []*worker, now *atomic.Int32) answer {
	var all sync.WaitGroup
	for _, w := range crew {
		all.Go(func() {
			for w.errors < tooMany && w.cycle(ctx) {
			}
		})
	}
	measured := time.Duration(j.Measure) * time.Millisecond
	time.Sleep(time.Duration(j.Warm) * time.Millisecond) // real: the warm-up
	now.Store(during)
	began := time.Now()
	time.Sleep(measured) // real: the measured time
	now.Store(after)
	late := float64(time.Since(began)) / float64(measured)
	all.Wait()

	var a answer
	var latencies []time.Duration
	for _, w := range crew {
		latencies = append(latencies, w.latencies...)
		a.Operations += w.operations
		a.Cycles += w.cycles
		a.Errors += w.errors
		if w.err != nil {
			a.Error = w.err.Error()
		}
	}
	a.Operations = int64(float64(a.Operations) / late)
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		a.P50, a.P99 = micros(latencies[n/2]), micros(latencies[n*99/100])
	}
	return a
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// tooMany is the number of errors after which a worker stops: their cause is permanent.
const tooMany = 10

type worker struct {
	job
	acquire acquire
	random  *rand.Rand
	now     *atomic.Int32

	operations int64
	latencies  []time.Duration
	cycles     int64
	errors     int64
	err        error // the first error
}

// cycle acquires and releases once, and reports whether there is time for another cycle. Two reads
// of the clock take as long as a lock without a request, so a job may have only a sample timed.
func (w *worker) cycle(ctx context.Context) bool {
	read := w.Reads == 100 || w.Reads > 0 && w.random.IntN(100) < w.Reads
	read = read && (w.Writes == 0 || w.random.IntN(1000) >= w.Writes)
	timed := w.Sample == 0 || w.cycles%int64(w.Sample) == 0
	var began time.Time
	var took time.Duration
	if timed {
		began = time.Now()
	}
	release, err := w.acquire(ctx, read)
	if timed {
		took = time.Since(began)
	}
	at := w.now.Load()
	if err == nil {
		if w.Work > 0 {
			time.Sleep(time.Duration(w.random.IntN(2*w.Work)) * time.Millisecond) // real: the job
		}
		err = release()
	}
	if err != nil {
		w.errors++
		w.err = err
		return at != after
	}
	w.cycles++
	if at == during {
		w.operations++
		if timed {
			w.latencies = append(w.latencies, took)
		}
	}
	return at != after
}

// An operation counts if its lock is granted in the measured time.
func TestOnlyTheMeasuredTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		take := func(context.Context, bool) (func() error, error) {
			time.Sleep(time.Millisecond)
			return func() error { return nil }, nil
		}
		var now atomic.Int32
		w := &worker{job: job{Sample: 10}, acquire: take, now: &now}
		a := run(t.Context(), job{Warm: 100, Measure: 500}, []*worker{w}, &now)
		if a.Operations < 499 || a.Operations > 501 || a.Cycles < 600 || a.Cycles > 601 || a.P50 != 1000 || a.P99 != 1000 {
			t.Errorf("%+v, want 500 operations of 1 ms in 600 cycles", a)
		}
		if n := len(w.latencies); n < 49 || n > 51 {
			t.Errorf("%d operations were timed, want 50", n)
		}
	})
}
