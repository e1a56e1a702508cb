package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// lockers are a connection and a lock on it.
type lockers interface {
	// worker returns the function that a worker repeats. Workers share objects that are meant to be
	// shared by the goroutines of a process.
	worker() (acquire func(ctx context.Context, read bool) (release func() error, err error))
	close()
}

// libraries are the libraries that this program can drive.
var libraries = map[string]func(ctx context.Context, j job) (lockers, error){
	ours:     openOurs,
	again:    openReentrant,
	zkLock:   openZkLock,
	bare:     openRequests,
	inMemory: openInMemory,
	looking:  openLooking,
}

// drive runs a driver, and returns the exit code.
func drive(library string) int {
	fmt.Println("hello", runtime.Version())
	lines := realzk.Lines()
	for line := range lines {
		if line == "bye" {
			break
		}
		var j job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			return cry(fmt.Errorf("told %q: %w", line, err))
		}
		if err := work(library, j, lines); err != nil {
			return cry(err)
		}
		fmt.Println("closed")
	}
	if err := noGoroutines(); err != nil {
		return cry(err)
	}
	fmt.Println("left")
	return 0
}

func cry(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// work does a job. lines receives the parent's "go" and "end".
func work(library string, j job, lines <-chan string) error {
	ctx := context.Background()
	connections := make([]lockers, j.Sessions)
	for i := range connections {
		own := j
		if j.Own > 0 {
			own.Path = fmt.Sprintf("%s/%d", j.Path, i)
		}
		c, err := libraries[library](ctx, own)
		if err != nil {
			return err
		}
		defer c.close()
		connections[i] = c
	}
	crew := make([]*worker, j.Workers)
	for i := range crew {
		crew[i] = &worker{
			acquire: connections[i%j.Sessions].worker(),
			random:  rand.New(rand.NewPCG(uint64(i), 7)),
			reads:   j.Reads,
			work:    time.Duration(j.Work) * time.Millisecond,
			window:  new(window), // a window that has ended
		}
	}
	// The first cycle creates directories and initializes the objects.
	for i := range j.Sessions {
		if crew[i].cycle(ctx); crew[i].err != nil {
			return crew[i].err
		}
		crew[i].cycles = 0
	}
	fmt.Println("ready")
	if word := <-lines; word != "go" {
		return fmt.Errorf("told %q, want go", word)
	}
	text, err := json.Marshal(run(ctx, j, crew))
	if err != nil {
		return err
	}
	fmt.Println("done", string(text))
	if word := <-lines; word != "end" {
		return fmt.Errorf("told %q, want end", word)
	}
	return nil
}

func run(ctx context.Context, j job, crew []*worker) answer {
	warm := time.Duration(j.Warm) * time.Millisecond
	measured := time.Duration(j.Measure) * time.Millisecond
	from := time.Now().Add(warm)
	shared := &window{from: from, until: from.Add(measured)}
	for _, d := range []time.Duration{warm, warm + measured} {
		defer time.AfterFunc(d, func() { shared.reach(time.Now()) }).Stop()
	}
	var wg sync.WaitGroup
	for _, w := range crew {
		w.window = shared
		wg.Go(func() {
			for w.errors < tooMany && w.cycle(ctx) {
			}
		})
	}
	wg.Wait()

	var a answer
	var all histogram
	for _, w := range crew {
		all.merge(&w.latencies)
		a.Operations += w.operations
		a.Cycles += w.cycles
		a.Errors += w.errors
		if w.err != nil {
			a.Error = w.err.Error()
		}
	}
	a.P50, a.P99, a.Max = micros(all.quantile(0.5)), micros(all.quantile(0.99)), micros(all.max)
	return a
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// tooMany is the number of errors after which a worker stops: their cause is permanent.
const tooMany = 10

// window is the measured time. Workers that read the clock share the state with the others.
type window struct {
	from, until time.Time
	reached     atomic.Int32
}

const (
	before = iota
	during
	after
)

// reach returns whether t is before, in or after the window.
func (w *window) reach(t time.Time) int32 {
	var at int32 = after
	switch {
	case t.Before(w.from):
		at = before
	case t.Before(w.until):
		at = during
	}
	for old := w.reached.Load(); old < at && !w.reached.CompareAndSwap(old, at); {
		old = w.reached.Load()
	}
	return at
}

type worker struct {
	acquire func(ctx context.Context, read bool) (release func() error, err error)
	random  *rand.Rand
	reads   int
	work    time.Duration // the mean
	window  *window

	untimed    int   // how many of the next cycles are not timed
	since      int64 // operations since the last timed operation
	operations int64
	latencies  histogram
	cycles     int64
	errors     int64
	err        error // the first error
}

// Two reads of the clock take as long as a lock without a request. So after a short operation some
// operations are only counted.
const (
	short = 10 * time.Microsecond
	every = 16 // of so many short operations one is timed
)

// cycle acquires and releases once, and reports whether there is time for another cycle.
func (w *worker) cycle(ctx context.Context) bool {
	read := w.reads == 100 || w.reads > 0 && w.random.IntN(100) < w.reads
	timed := w.untimed == 0
	var began time.Time
	if timed {
		began = time.Now()
	}
	release, err := w.acquire(ctx, read)
	var took time.Duration
	var at int32
	if timed {
		held := time.Now()
		took, at = held.Sub(began), w.window.reach(held)
	} else {
		at = w.window.reached.Load()
	}
	if err == nil && w.work > 0 {
		time.Sleep(time.Duration(w.random.Int64N(int64(2 * w.work)))) // the job
	}
	if err == nil {
		err = release()
	}
	if err != nil {
		w.untimed = 0
		w.errors++
		if w.err == nil {
			w.err = err
		}
		return at != after
	}
	w.cycles++
	if at == during {
		w.operations++
		w.since++
	}
	switch {
	case !timed:
		w.untimed--
		return at != after
	case took < short:
		w.untimed = every - 1
	}
	if at == during {
		w.latencies.add(took, w.since) // it represents the untimed operations before it, too
		w.since = 0
	}
	return at != after
}

// noGoroutines waits for the connections' goroutines to end.
func noGoroutines() error {
	var err error
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		// Find retries by itself, for up to half a second.
		if err = goleak.Find(goleak.IgnoreAnyFunction(listener)); err == nil {
			return nil
		}
	}
	return err
}

// listener reads the parent's lines until the process ends.
const listener = "github.com/zklocks/zklocks/internal/test/realzk.Lines.func1"
