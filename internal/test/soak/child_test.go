package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
)

// job is the order to one process of a hammer. Process and parent exchange lines: the process sends
// "ready"; the parent sends a round; the process sends "done" with an outcome. Then the parent
// checks whether a node was left behind, and sends another round, or "close".
type job struct {
	options
	Name    string
	Process int
	Servers []string
	Session time.Duration // the session timeout that the process asks for
	Linger  int           // one in so many holds lasts as long as a session may last
	Least   time.Duration // most calls are canceled, after this or a longer time
	Calm    bool          // nothing breaks: no hold may be lost
}

// round has fresh paths, and a file for the record of what happens on them. Because of the rounds
// the record of a long run is checked in pieces, and the directories become idle.
type round struct {
	Number int
	For    time.Duration
	Paths  []string
	Record string
}

// record is what a process writes about a round, in addition to its outcome.
type record struct {
	Holds      []history.Hold
	Downgraded map[string]lock // by node, because the czxid of such a node is not the token
}

// lock is one node that was granted: its directory and its token.
type lock struct {
	Path  string
	Token int64
}

// outcome is what one process, or all of them together, have done and seen.
type outcome struct {
	Tally      map[string]int64
	Wrong      []complaint // the first ones
	WrongTotal int
}

// complaint is something wrong that a worker has detected at the moment when it happened. Its text
// begins with the worker's name.
type complaint struct {
	At   int64
	Text string
}

const maxWrong = 20

func (o *outcome) add(other outcome) {
	for what, n := range other.Tally {
		o.count(what, n)
	}
	o.Wrong = append(o.Wrong, other.Wrong...)
	o.Wrong = o.Wrong[:min(len(o.Wrong), maxWrong)]
	o.WrongTotal += other.WrongTotal
}

func (o *outcome) count(what string, n int64) {
	if o.Tally == nil {
		o.Tally = make(map[string]int64)
	}
	o.Tally[what] += n
}

// obey runs one process.
func (j *job) obey(lines <-chan string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := zklocks.Connect(ctx, j.Servers, j.Session)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for line := range lines {
		if line == "close" {
			break
		}
		var r round
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return fmt.Errorf("told %q: %w", line, err)
		}
		all, err := j.hammer(conn, r)
		if err != nil {
			return err
		}
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		fmt.Println("done", string(text))
	}
	_ = conn.Close()                  // on a busy machine the answer may take longer than Close waits
	test.Poll(patience, func() bool { // goleak itself waits half a second
		err = goleak.Find(goleak.IgnoreAnyFunction("github.com/zklocks/zklocks/internal/test/realzk.Lines.func1"))
		return err == nil
	})
	return err
}

// storm is one round in one process.
type storm struct {
	*job
	round
	conn  *zklocks.Conn
	rec   *history.Recorder
	locks []lockKind

	mu     sync.Mutex
	record record
	outcome
}

func (j *job) hammer(conn *zklocks.Conn, r round) (outcome, error) {
	s := &storm{job: j, round: r, conn: conn, rec: history.NewRecorder(j.Name)}
	s.record.Downgraded = make(map[string]lock)
	for i, path := range r.Paths {
		s.locks = append(s.locks, lockKinds[i%len(lockKinds)](conn, path, i))
	}
	end := time.Now().Add(r.For)
	var wg sync.WaitGroup
	for i := range j.Goroutines {
		w := &worker{
			storm: s, who: fmt.Sprintf("%s.%02d", j.Name, i),
			random: rand.New(rand.NewPCG(j.Seed+uint64(r.Number)<<32, uint64(j.Process*1000+i+1))),
		}
		wg.Go(func() {
			for time.Now().Before(end) {
				w.cycle(w.choose())
			}
		})
	}
	wg.Wait()
	s.record.Holds = s.rec.Holds()
	return s.outcome, s.record.save(r.Record)
}

func (r *record) save(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}

func (r *record) load(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewDecoder(f).Decode(r)
}

// worker is one goroutine.
type worker struct {
	*storm
	who    string
	random *rand.Rand
	until  time.Time // the end of each call
}

// chance returns true once in n times.
func (w *worker) chance(n int) bool { return w.random.IntN(n) == 0 }

func (w *worker) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcome.count(what, 1)
}

func (w *worker) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.WrongTotal++; len(w.Wrong) < maxWrong {
		w.Wrong = append(w.Wrong, complaint{history.Now(), w.who + ": " + fmt.Sprintf(format, args...)})
	}
}

// choose returns a path: one in sixteen choices is a crowded path.
func (w *worker) choose() int {
	if w.chance(16) {
		return w.random.IntN(min(len(lockKinds), len(w.Paths)))
	}
	return w.random.IntN(len(w.Paths))
}
