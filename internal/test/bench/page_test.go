package bench

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The files of a report.
const (
	pageFile    = "benchmarks.md"
	chartFile   = "benchmarks-ratios.svg"
	figuresFile = "benchmarks-figures.txt" // the output of make bench; the page shows a part of it
)

// page has the tables of benchmarks.md.
type page struct {
	machine [][]string
	speed   []result
	slow    []result // speed with a slower disk
	idles   []result
	queues  []result
	crowds  []result
}

// figures returns the tables of the whole run.
func (p *page) figures() string {
	var b strings.Builder
	for _, part := range []struct {
		title   string
		results []result
	}{{"speed", p.speed}, {"speed, with a slower disk", p.slow}, {"idle locks", p.idles}, {"waiters", p.queues}, {"permits", p.crowds}} {
		if len(part.results) > 0 {
			b.WriteString(part.title + "\n\n" + table(part.results) + "\n")
		}
	}
	return b.String()
}

// write writes the files of a report. The page's text remains: each table is between a line
// "<!-- NAME -->" and a line "<!-- end -->".
func (p *page) write(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, pageFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	costs, capacity := paper(p.speed, p.queues)
	for name, rows := range map[string][][]string{
		"machine": p.machine, "speed": ratiosOf(p.speed, true), "slow": ratiosOf(p.slow, false),
		"idles": keeps(p.idles), "queues": cycles(p.queues), "crowds": cycles(p.crowds), "costs": costs, "capacity": capacity,
	} {
		// A table begins with two lines of column names.
		place := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->\n\n[^\n]*\n[^\n]*\n)(.*?)(\n<!-- end -->\n)`)
		if !place.Match(text) {
			t.Fatalf("%s has no place for the table of %s", file, name)
		}
		var table strings.Builder
		for _, row := range rows {
			table.WriteString("| " + strings.Join(row, " | ") + " |\n")
		}
		text = place.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(table.String(), "$", "$$")+"${3}"))
	}
	for name, text := range map[string]string{pageFile: string(text), chartFile: ratios(p.speed), figuresFile: p.figures()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// ratiosOf returns our row of each workload, with the ratios to the peers.
func ratiosOf(results []result, all bool) (rows [][]string) {
	for _, r := range results {
		if r.peer != ours {
			continue
		}
		row := []string{r.workload.name, number(r.median[speed])}
		if all {
			row = append(row, duration(r.median[p50]), duration(r.median[p99]), decimals(r.median[requests], 2))
		}
		for _, name := range []string{zkLock, curator, kazoo} {
			peer, _ := find(results, r.workload.name, name)
			row = append(row, times(peer.ratio))
		}
		rows = append(rows, row)
	}
	return rows
}

// keeps returns what it brings and costs to keep idle locks.
func keeps(results []result) (rows [][]string) {
	for _, r := range results {
		if r.peer == kept {
			without, _ := find(results, r.workload.name, ours)
			peer, _ := find(results, r.workload.name, curator)
			rows = append(rows, []string{
				r.workload.name, number(r.median[speed]), number(without.median[speed]),
				decimals(r.median[requests], 3), decimals(without.median[requests], 3), times(peer.ratio),
			})
		}
	}
	return rows
}

// cycles returns what a cycle costs while others wait.
func cycles(results []result) (rows [][]string) {
	for _, r := range results {
		rows = append(rows, []string{
			r.workload.name, r.peer, decimals(r.median[requests], 2), decimals(r.median[notifications], 2), duration(grantToGrant(r)),
		})
	}
	return rows
}

// grantToGrant returns microseconds.
func grantToGrant(r result) float64 {
	if r.median[speed] == 0 {
		return 0
	}
	return 1e6 / r.median[speed]
}

// paper computes an upper bound of what an ensemble can do, from the server's processor time in a
// run: every member does all writes, and the reads of its own sessions. A cycle without contention
// is two writes for us; zk.Lock also lists.
func paper(speeds, waits []result) (costs, capacity [][]string) {
	idle, ok1 := find(speeds, free.name, ours)
	listing, ok2 := find(speeds, free.name, zkLock)
	contended, ok3 := find(waits, busy.name, ours)
	if !ok1 || !ok2 || !ok3 {
		return nil, nil
	}
	write := idle.median[processor] / 2
	read := (listing.median[processor] - idle.median[processor]) / (listing.median[requests] - idle.median[requests])
	reads := max(contended.median[requests]-2, 0)
	costs = [][]string{
		{"a write: create, delete", duration(write)},
		{"a read: listing, look at a node", duration(read)},
		{"reads in a cycle with waiters", decimals(reads, 2)},
		{"grant to grant of one lock, 100 waiters", duration(grantToGrant(contended))},
		{"so one lock is handed over a second", number(contended.median[speed])},
	}
	for _, members := range []float64{1, 3, 5} {
		// aSecond returns how often each member, with one processor, can do this much.
		aSecond := func(writes, reads float64) float64 { return 1e6 / (writes*write + reads*read/members) }
		busy := aSecond(2, reads)
		// A session with holds sends a heartbeat, which costs what a write does, every 2/11 of its
		// timeout, and as many pings, which only its own member answers.
		const heartbeat = 10.0 * 2 / 11 // seconds
		capacity = append(capacity, []string{
			strconv.Itoa(int(members)), twoDigits(aSecond(2, 0)), twoDigits(busy),
			number(max(1, busy/contended.median[speed])), twoDigits(heartbeat * aSecond(1, 1)),
		})
	}
	return costs, capacity
}

// twoDigits rounds to the precision of a computed figure.
func twoDigits(v float64) string {
	return number(rounded(v, math.Pow(10, math.Floor(math.Log10(v))-1)))
}

// Each table of the page is written, and the text between the tables remains.
func TestPage(t *testing.T) {
	measured := func(w workload, peer string, f figures) result {
		return result{workload: w, peer: peer, rounds: []figures{f}}
	}
	p := &page{
		machine: [][]string{{"Go", "1.99"}},
		speed: []result{
			measured(free, ours, figures{speed: 5000, p50: 688, p99: 3310, requests: 2, processor: 100}),
			measured(free, zkLock, figures{speed: 4000, requests: 3, processor: 130}),
			measured(free, curator, figures{speed: 5}),
		},
		idles: []result{
			measured(idles[0], kept, figures{speed: 9000, requests: 0.004}), measured(idles[0], ours, figures{speed: 900, requests: 2}),
			measured(idles[0], curator, figures{speed: 9}),
		},
		queues: []result{measured(busy, ours, figures{speed: 1000, requests: 5, notifications: 3})},
		crowds: []result{measured(crowds[0], ours, figures{speed: 100, requests: 5})},
	}
	p.slow = p.speed
	for _, results := range [][]result{p.speed, p.idles, p.queues, p.crowds} {
		summarize(results)
	}
	dir := t.TempDir()
	before, err := os.ReadFile(filepath.Join("../../../docs/maintainers", pageFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, pageFile), before, 0o644); err != nil {
		t.Fatal(err)
	}
	p.write(t, dir)
	for file, parts := range map[string][]string{
		pageFile: {
			"\n| Go | 1.99 |\n\n<!-- end -->\n",
			"\n| exclusive, 64 sessions, a lock each | 5,000 | 688 µs | 3.31 ms | 2.00 | 1.25 | 1,000 | – |\n\n<!-- end -->\n",
			"\n| exclusive, 64 sessions, a lock each | 5,000 | 1.25 | 1,000 | – |\n",
			"\n| reads, 1 session | 9,000 | 900 | 0.004 | 2.000 | 1,000 |\n",
			"\n| 100 wait | zklocks | 5.00 | 3.00 | 1.00 ms |\n", "\n| 1 permit, 10 wait | zklocks | 5.00 | 0.00 | 10.0 ms |\n",
			"| a write: create, delete | 50.0 µs |\n| a read: listing, look at a node | 30.0 µs |\n",
			"| 1 | 10,000 | 5,300 | 5 | 23,000 |\n| 3 | 10,000 | 7,700 | 8 | 30,000 |\n", "## Scale, on paper\n",
		},
		figuresFile: {"speed\n\nworkload", zkLock, "waiters\n\nworkload"},
		chartFile:   {"<svg", ">1.25 ×<", ">1,000 ×<"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		for _, part := range parts {
			if err != nil || !strings.Contains(string(text), part) {
				t.Errorf("%s is without %q (%v):\n%s", file, part, err, text)
			}
		}
	}
}
