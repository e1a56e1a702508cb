package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
)

// TestBench is the measurement of make bench.
func TestBench(t *testing.T) {
	s, asked := fromEnv(t)
	if ref, shortcuts := variants(); !asked || ref != "" || shortcuts {
		t.Log("BENCH is not set, or variants are measured; TestHarness looks after the harness")
		return
	}
	l := newLaboratory(t, s, ours, again, zkLock, curator, kazoo, bare, looking, inMemory)
	for _, line := range l.skipped {
		fmt.Println(line)
	}
	speed := s.chosen(workloads)
	l.warmUp(t, speed)
	r := report{lab: l, Began: time.Now()}
	r.speed = l.measure(t, speed)
	l.settings = s.patient()
	r.queues = l.measure(t, s.chosen(lines))
	r.permits = l.measure(t, s.chosen(wide))
	l.settings = s
	l.leave()

	if reports() && s.Disk == 0 {
		r.slow = slower(t, s)
	}

	for _, results := range [][]result{r.speed, r.queues, r.permits, r.slow} {
		printTable(os.Stdout, results)
		fmt.Println()
	}
	if reports() {
		if err := r.write(t, os.Getenv("BENCH_REPORT")); err != nil {
			t.Fatal(err)
		}
	}
}

func reports() bool { return os.Getenv("BENCH_REPORT") != "" }

// slower repeats the measurement on a server with a slower disk.
func slower(t *testing.T, s settings) []result {
	s.Disk = time.Millisecond
	s.Rounds = max(1, s.Rounds*3/5) // with a slower disk the results vary less
	l := newLaboratory(t, s, ours, again, zkLock, curator, kazoo, bare, looking, inMemory)
	defer l.leave()
	speed := s.chosen(workloads)
	l.warmUp(t, speed)
	return l.measure(t, speed)
}

// TestHarness runs the whole benchmark on a small scale, so that the harness works when it is
// needed. It checks two figures that do not depend on time: the requests of a cycle without
// contention.
func TestHarness(t *testing.T) {
	l := newLaboratory(t, settings{Name: "harness", Rounds: 1, For: 300 * time.Millisecond}, ours, again, zkLock)
	var results []result
	some := func() bool { // on a busy machine no cycle may end in time
		results = l.measure(t, workloads[:1])
		return !slices.ContainsFunc(results, func(r result) bool { return r.Operations == 0 })
	}
	test.Eventually(t, 30*time.Second, "operations of each worker", some)
	l.leave()

	want := map[string]float64{ours: 2, again: 2, zkLock: 3}
	if len(results) != len(want) {
		t.Fatalf("%d results, want %d", len(results), len(want))
	}
	for _, r := range results {
		if r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 {
			t.Errorf("%s: %+v", r.peer, r.sample)
		}
		if got := roundTo(r.requests, 10); got != want[r.peer] {
			t.Errorf("%s: %v requests a cycle, want %v", r.peer, r.requests, want[r.peer])
		}
	}
	// All parts of the page, which is otherwise written only after an hour.
	dir := t.TempDir()
	local := "pkg: github.com/zklocks/zklocks/reentrant\nBenchmarkReenter-2 1000 247.0 ns/op 0 B/op 0 allocs/op\n" +
		"pkg: github.com/zklocks/zklocks/internal/goid\nBenchmarkID-2 1000 4.0 ns/op 0 B/op 0 allocs/op\n"
	if err := os.WriteFile(dir+"/"+localFile, []byte(local), 0o644); err != nil {
		t.Fatal(err)
	}
	speed, queues := paper()
	r := report{
		lab: l, Began: time.Now(), permits: results, slow: results,
		speed: append(speed, results...), queues: append(queues, results...),
	}
	if err := r.write(t, dir); err != nil {
		t.Fatal(err)
	}
	for file, parts := range map[string][]string{
		page:        {"| exclusive, 1 session |", "| reentrant | Reenter | 247 ns | 0 |\n\n", "## Scale, on paper"},
		figuresFile: {"speed\n\nworkload", zkLock},
		ratiosChart: {"<svg"}, requestsChart: {"<svg"}, handOverChart: {"<svg"},
	} {
		text, err := os.ReadFile(dir + "/" + file)
		for _, part := range parts {
			if err != nil || !strings.Contains(string(text), part) {
				t.Errorf("%s of %d bytes is without %q (%v)", file, len(text), part, err)
			}
		}
	}
}
