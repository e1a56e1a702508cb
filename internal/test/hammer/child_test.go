package hammer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
)

const (
	// sessionTimeout is long: no fault is injected here, so a hold could only be lost because the
	// machine is busy, which would blur the result.
	sessionTimeout = 40 * time.Second
	// patience bounds steps that should take seconds.
	patience = 60 * time.Second
)

// child runs one process. It returns the exit code.
func child(order string) int {
	var j job
	if err := json.Unmarshal([]byte(order), &j); err != nil {
		return cry(err)
	}
	words := make(chan string)
	go listen(words)

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := zklocks.Connect(ctx, j.Servers, j.Session)
	if err != nil {
		return cry(err)
	}
	fmt.Println("ready")
	for word := range words {
		if word == "close" {
			break
		}
		result, err := j.do(conn, word)
		if err != nil {
			return cry(err)
		}
		text, err := json.Marshal(result)
		if err != nil {
			return cry(err)
		}
		fmt.Println("done", string(text))
	}
	_ = conn.Close() // on a busy machine the answer may take longer than Close waits
	if err := noGoroutines(); err != nil {
		return cry(err)
	}
	return 0
}

// do runs what the parent orders: "go", or a round of the stress.
func (j *job) do(conn *zklocks.Conn, word string) (outcome, error) {
	if word == "go" {
		return j.hammer(conn)
	}
	var r round
	if err := json.Unmarshal([]byte(word), &r); err != nil {
		return outcome{}, fmt.Errorf("told %q: %w", word, err)
	}
	return j.stress(conn, r)
}

func cry(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// listen ends the process when its parent has ended.
func listen(words chan<- string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words <- in.Text()
	}
	os.Exit(3)
}

// noGoroutines waits for the connection's goroutines to end.
func noGoroutines() error {
	var err error
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		// It retries by itself, for up to half a second.
		if err = goleak.Find(goleak.IgnoreAnyFunction(pkg + "listen")); err == nil {
			return nil
		}
	}
	return err
}

const pkg = "github.com/zklocks/zklocks/internal/test/hammer."

// worker is one goroutine.
type worker struct {
	job    *job
	who    string
	me     int64
	random *rand.Rand
	rec    *history.Recorder
	cells  []cell
	until  time.Time // the end of each call

	mu      sync.Mutex // joins run in goroutines of their own
	outcome outcome
}

func (w *worker) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcome.count(what, 1)
}

func (w *worker) wrong(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcome.wrong(w.who + ": " + text)
}

// recipes return what a worker repeats, on one of the paths.
var recipes = map[string]func(conn *zklocks.Conn, j *job) func(w *worker, path int){
	"rwlock":    rwlocks,
	"semaphore": semaphores,
	"reentrant": mutexes,
	"all":       several,
}

func (j *job) hammer(conn *zklocks.Conn) (outcome, error) {
	var all outcome
	shared, unmap, err := mapFile(j.Cells, len(j.Paths)*cellSize)
	if err != nil {
		return all, err
	}
	f, err := os.Create(j.Record)
	if err != nil {
		return all, err
	}
	lines := bufio.NewWriterSize(f, 1<<16)
	rec := history.NewRecorder(name(j.Process), lines)
	cycle := recipes[j.Recipe](conn, j)

	end := time.Now().Add(j.For)
	workers := make([]*worker, j.Goroutines)
	var wg sync.WaitGroup
	for i := range workers {
		me := int64(j.Process*1000 + i + 1)
		w := &worker{
			job: j, who: fmt.Sprintf("%s.%02d", name(j.Process), i), me: me,
			random: rand.New(rand.NewPCG(j.Seed, uint64(me))),
			rec:    rec, cells: cellsAt(shared, len(j.Paths)), until: end.Add(2 * patience),
		}
		workers[i] = w
		wg.Go(func() {
			for n := 0; n < j.Cycles || time.Now().Before(end); n++ {
				path := 0 // three quarters of all want the same path
				if w.random.IntN(4) == 0 {
					path = w.random.IntN(len(j.Paths))
				}
				cycle(w, path)
			}
		})
	}
	wg.Wait()
	for _, w := range workers {
		all.add(w.outcome)
	}
	for _, err := range []error{rec.Err(), lines.Flush(), f.Close(), unmap()} {
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
