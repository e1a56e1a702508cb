package hammer

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// result is one run, seen by the parent.
type result struct {
	settings
	outcome
	report    *history.Report
	crossings int // exclusive holds whose predecessor was in another process
	together  int // other holds beside which was one of another process
	checking  time.Duration
}

// beside runs while the children hammer: it begins before they do, and the returned function ends
// it and changes the rules.
type beside func(t *testing.T, r *result, j job) func(*history.Rules)

// hammer starts the processes, and checks what they have done.
func hammer(t *testing.T, s settings, j job, besides ...beside) *result {
	t.Helper()
	t.Logf("HAMMER=%v HAMMER_PROCESSES=%d HAMMER_GOROUTINES=%d HAMMER_SEED=%d", s.For, s.Processes, s.Goroutines, s.Seed)
	dir := t.TempDir()
	j.settings, j.Session = s, sessionTimeout
	if j.Servers == nil {
		j.Servers = realzk.Servers(t)
	}
	j.Paths = []string{test.Path(t), test.Path(t)}
	j.Cells = filepath.Join(dir, "cells")
	shared, unmap, err := mapFile(j.Cells, len(j.Paths)*cellSize)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()

	r := &result{settings: s}
	rules := history.Rules{Reentrant: j.Recipe == "reentrant"}
	if j.Permits > 0 {
		rules.Limits = []history.Limit{{Permits: j.Permits}}
	}
	var ends []func(*history.Rules)
	for _, b := range besides {
		ends = append(ends, b(t, r, j))
	}
	processes := make([]*process, s.Processes)
	records := make([]string, s.Processes)
	for i := range processes {
		j.Process = i
		j.Record = filepath.Join(dir, name(i)+".jsonl")
		records[i] = j.Record
		processes[i] = launch(t, j)
	}
	for _, p := range processes {
		p.hears(t, "ready", patience)
	}
	for _, p := range processes {
		p.say(t, "go")
	}
	for _, p := range processes {
		var o outcome
		if err := json.Unmarshal([]byte(p.hears(t, "done", s.For+3*patience)), &o); err != nil {
			t.Fatal(err)
		}
		r.add(o)
	}
	for _, end := range ends {
		end(&rules)
	}
	// Check while the sessions live: their end would delete what the locks left.
	witness := realzk.Connect(t, sessionTimeout)
	for _, path := range j.Paths {
		if j.Recipe == "semaphore" {
			path += "/queue"
		}
		test.AssertEmpty(t, witness, path)
	}
	for _, p := range processes {
		p.say(t, "close")
	}
	for _, p := range processes {
		p.ends(t, patience)
	}
	r.visits(cellsAt(shared, len(j.Paths)))
	r.check(t, rules, records)
	return r
}

// visits compares what the cells have counted with what the children have: an update that was lost
// shows here.
func (r *result) visits(cells []cell) {
	var sum int64
	for i := range cells {
		c := &cells[i]
		sum += c.sum.Load()
		if c.writer.Load() != 0 || c.readers.Load() != 0 || c.permits.Load() != 0 {
			r.wrong(fmt.Sprintf("cell %d: writer %d, %d readers, %d permits are left inside", i, c.writer.Load(), c.readers.Load(), c.permits.Load()))
		}
	}
	if sum != r.Tally["exclusive"] {
		r.wrong(fmt.Sprintf("cell: of %d updates %d are left", r.Tally["exclusive"], sum))
	}
}

func (r *result) check(t *testing.T, rules history.Rules, records []string) {
	t.Helper()
	var all [][]history.Hold
	for _, record := range records {
		f, err := os.Open(record)
		if err != nil {
			t.Fatal(err)
		}
		holds, err := history.Read(f, 0)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, holds)
	}
	began := time.Now()
	r.report = history.Check(rules, all...)
	r.checking = time.Since(began)
	seconds := r.contention(slices.Concat(all...)).Seconds()

	t.Logf("%s; %d hand-overs between processes, %d beside another process; %.0f holds a second; checked in %v",
		r.report.Summary(), r.crossings, r.together, float64(r.report.Holds)/seconds, r.checking.Round(time.Millisecond))
	var tally []string
	for _, what := range slices.Sorted(maps.Keys(r.Tally)) {
		tally = append(tally, fmt.Sprintf("%d %s", r.Tally[what], what))
	}
	t.Log(strings.Join(tally, ", "))
}

// processOf is the process whose name the owner's begins with.
func processOf(h history.Hold) string { return h.Who[:3] }

// contention counts handovers and overlaps between processes, not within one, and returns how long
// all of it took.
func (r *result) contention(holds []history.Hold) time.Duration {
	var first, end int64
	slices.SortFunc(holds, func(a, b history.Hold) int { return int(a.Acquired - b.Acquired) })
	last := make(map[string]string)              // by path
	ends := make(map[string]map[string]int64, 2) // by path and process
	for i, h := range holds {
		if i == 0 {
			first = h.Acquired
		}
		end = max(end, h.Ended)
		if h.Kind == history.Exclusive {
			if before, ok := last[h.Path]; ok && before != processOf(h) {
				r.crossings++
			}
			last[h.Path] = processOf(h)
			continue
		}
		if ends[h.Path] == nil {
			ends[h.Path] = make(map[string]int64)
		}
		for p, end := range ends[h.Path] {
			if p != processOf(h) && end > h.Acquired {
				r.together++
				break
			}
		}
		ends[h.Path][processOf(h)] = max(ends[h.Path][processOf(h)], h.Ended)
	}
	return time.Duration(end - first)
}

// right fails the test if anything was wrong.
func (r *result) right(t *testing.T) {
	t.Helper()
	for _, c := range r.Wrong {
		t.Error(c.Text)
	}
	if more := r.WrongTotal - len(r.Wrong); more > 0 {
		t.Errorf("... and %d more", more)
	}
	if err := r.report.Err(); err != nil {
		t.Error(err)
	}
}

// fought fails the test if one of these has never happened.
func (r *result) fought(t *testing.T, whats ...string) {
	t.Helper()
	for _, what := range whats {
		if r.Tally[what] == 0 {
			t.Errorf("never %s: the run means nothing", what)
		}
	}
	if r.report.Contended < 10*r.Processes {
		t.Errorf("only %d had to wait: the run means nothing", r.report.Contended)
	}
}
