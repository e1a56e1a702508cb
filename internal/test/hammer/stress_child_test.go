package hammer

import (
	"encoding/gob"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
)

// round is the order to a child of the stress, one after the other: fresh paths, and files for the
// record of what happens on them. So the record of a long run is checked in pieces, and its
// directories fall idle.
type round struct {
	Number int
	For    time.Duration
	Paths  []string
	Cells  string
	Record string
}

// record is the result of a child for a round, beside its outcome.
type record struct {
	Holds    []history.Hold
	Lost     []lock           // holds that were found to be lost
	Nodes    map[string]int64 // of downgraded holds, with their tokens, which are not their czxid
	Suspects []suspect
}

// lock is one node that was granted: its directory and its token.
type lock struct {
	Path  string
	Token int64
}

// suspect is a hold that was still certain after a later one had been inside.
type suspect struct {
	Lock  lock // named, as gob leaves out embedded fields that are not exported
	Who   string
	At    int64
	Later int64 // the token of that one
}

// storm is one round in one child.
type storm struct {
	job *job
	round
	conn  *zklocks.Conn
	rec   *history.Recorder
	locks []lockKind

	mu     sync.Mutex
	record record
}

// stress is hammer with faults.
func (j *job) stress(conn *zklocks.Conn, r round) (outcome, error) {
	var all outcome
	shared, unmap, err := mapFile(r.Cells, len(r.Paths)*cellSize)
	if err != nil {
		return all, err
	}
	s := &storm{job: j, round: r, conn: conn, rec: history.NewRecorder(name(j.Process), nil)}
	s.record.Nodes = make(map[string]int64)
	for i, path := range r.Paths {
		s.locks = append(s.locks, lockKinds[i%len(lockKinds)](conn, path, i))
	}
	workers := make([]*worker, j.Goroutines)
	end := time.Now().Add(r.For)
	var wg sync.WaitGroup
	for i := range workers {
		me := int64(j.Process*1000 + i + 1)
		w := &worker{
			job: j, who: fmt.Sprintf("%s.%02d", name(j.Process), i), me: me,
			random: rand.New(rand.NewPCG(j.Seed+uint64(r.Number)<<32, uint64(me))),
			rec:    s.rec, cells: cellsAt(shared, len(r.Paths)),
		}
		workers[i] = w
		wg.Go(func() {
			for time.Now().Before(end) {
				s.cycle(w, s.choose(w))
			}
		})
	}
	wg.Wait()
	for _, w := range workers {
		all.add(w.outcome)
	}
	s.record.Holds = s.rec.Holds()
	return all, errors.Join(s.save(), unmap())
}

// choose returns a path: one in sixteen choices is a crowded one.
func (s *storm) choose(w *worker) int {
	if w.chance(16) {
		return w.random.IntN(len(lockKinds))
	}
	return w.random.IntN(len(s.Paths))
}

func (s *storm) save() error {
	f, err := os.Create(s.Record)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(&s.record), f.Close())
}

func (r *record) load(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return gob.NewDecoder(f).Decode(r)
}
