package bench

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"
)

// The files of a report.
const (
	page          = "benchmarks.md"
	ratiosChart   = "benchmarks-ratios.svg"
	requestsChart = "benchmarks-requests.svg"
	handOverChart = "benchmarks-handover.svg"
	// localFile is the output of `suite local`: the costs within a process, in benchstat's format.
	localFile = "benchmarks-local.txt"
	// figuresFile is the output of make bench; the page shows a part of it.
	figuresFile = "benchmarks-figures.txt"
)

//go:embed report.md.tmpl
var reportText string

// uncompared explains why the peers' lines end.
var uncompared = []string{
	"Up to 100 waiters have a session each. Of 1,000 waiters ten share",
	"a session, and the peers are not measured.",
}

// report is the data of the page.
type report struct {
	lab     *laboratory
	speed   []result
	queues  []result
	permits []result
	slow    []result // speed with a slower disk

	Began  time.Time
	System system
	Local  []local
}

// system describes the machine of the measurement, without its name.
type system struct {
	Cores             int
	Processor, Memory string
	OS                string
	Go, Client        string
	Java, ZooKeeper   string
	Sync              string // how long the server waits for the disk
	Peers             []string
	SyncCount         string
}

// local is a benchmark of `suite local`: the median of its runs.
type local struct {
	Package, Name, Time, Allocs string
}

// Command returns the command that the reader has to type.
func (r *report) Command() string {
	command, options := "make bench", "-report docs/maintainers"
	for _, o := range [][2]string{{"BENCH", "size"}, {"BENCH_ONLY", "only"}, {"BENCH_DISK", "disk"}} {
		if v := os.Getenv(o[0]); v != "" && v != "short" {
			options += fmt.Sprintf(" -%s %s", o[1], v)
		}
	}
	for _, name := range []string{"BENCH_ROUNDS", "BENCH_FOR"} {
		if v := os.Getenv(name); v != "" {
			command = fmt.Sprintf("%s=%s %s", name, v, command)
		}
	}
	return fmt.Sprintf("%s ARGS='%s'", command, options)
}

func (r *report) Rounds() int       { return r.lab.Rounds }
func (r *report) For() string       { return seconds(r.lab.For) }
func (r *report) Warm() string      { return seconds(r.lab.Warm) }
func (r *report) Skipped() []string { return r.lab.skipped }
func (r *report) Date() string      { return r.Began.UTC().Format(time.DateOnly) }
func (r *report) Speed() []row      { return rows(r.speed) }
func (r *report) Queues() []row     { return rows(r.queues) }

func (r *report) Permits() []row       { return rows(r.permits) }
func (r *report) Slow() []row          { return rows(r.slow) }
func (r *report) Ours(all []row) []row { return overview(all) }

// figures returns the tables of the whole run.
func (r *report) figures() string {
	var b strings.Builder
	for _, part := range []struct {
		title   string
		results []result
	}{
		{"speed", r.speed}, {"speed, with a slower disk", r.slow}, {"waiters", r.queues}, {"permits", r.permits},
	} {
		if len(part.results) > 0 {
			fmt.Fprintf(&b, "%s\n\n", part.title)
			printTable(&b, part.results)
			b.WriteString("\n")
		}
	}
	return b.String()
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) + " s" }

// Public returns the benchmarks of the public packages.
func (r *report) Public() []local {
	return slices.DeleteFunc(slices.Clone(r.Local), func(l local) bool { return strings.HasPrefix(l.Package, "internal/") })
}

// Without explains why peers that have such a lock are not measured. Workloads with the same reason
// are listed together.
func (r *report) Without() []string {
	var reasons []string
	workloads := map[string][]string{}
	for _, res := range r.speed {
		switch w := res.workload; {
		case w.without == "" || slices.Contains(workloads[w.without], w.name):
		default:
			if workloads[w.without] == nil {
				reasons = append(reasons, w.without)
			}
			workloads[w.without] = append(workloads[w.without], w.name)
		}
	}
	for i, reason := range reasons {
		reasons[i] = strings.Join(workloads[reason], "; ") + ": " + reason
	}
	return reasons
}

// HandOver returns the time from one grant to the next while others wait.
func (r *report) HandOver(row row) string {
	for _, results := range [][]result{r.queues, r.permits} {
		if res, ok := find(results, row.Workload, row.Peer); ok {
			return duration(handOver(res))
		}
	}
	return "-"
}

// handOver returns microseconds.
func handOver(r result) float64 {
	if r.perSecond == 0 {
		return 0
	}
	return 1e6 / r.perSecond
}

func (r *report) write(t *testing.T, dir string) error {
	t.Helper()
	var err error
	if r.System, err = describe(r.lab); err != nil {
		return err
	}
	if r.Local, err = readLocal(filepath.Join(dir, localFile)); err != nil {
		return err
	}
	text, err := template.New(page).Parse(reportText)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := text.Execute(&b, r); err != nil {
		return err
	}
	files := r.charts()
	files[page], files[figuresFile] = b.String(), r.figures()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) charts() map[string]string {
	waiting := func(of func(result) float64) map[string][]point {
		series := map[string][]point{}
		for _, res := range r.queues {
			if res.perSecond > 0 {
				series[res.peer] = append(series[res.peer], point{float64(max(res.workload.job.Workers-1, 1)), of(res)})
			}
		}
		return series
	}
	shown := []string{ours, zkLock, curator}
	return map[string]string{
		ratiosChart: ratios(r.speed),
		requestsChart: growth("requests per cycle", shown,
			waiting(func(r result) float64 { return r.requests }),
			func(v float64) string { return strconv.FormatFloat(roundTo(v, 100), 'f', -1, 64) }, uncompared...),
		handOverChart: growth("time from grant to grant", shown,
			waiting(handOver),
			func(v float64) string { return strconv.FormatFloat(roundTo(v/1000, 100), 'f', -1, 64) + " ms" }, uncompared...),
	}
}

func describe(l *laboratory) (system, error) {
	s := system{
		Cores:     runtime.NumCPU(),
		OS:        runtime.GOOS + "/" + runtime.GOARCH,
		Go:        strings.TrimPrefix(runtime.Version(), "go"),
		Client:    clientVersion(),
		Processor: fromFile("/proc/cpuinfo", `(?m)^model name\s*: (.+)$`),
		Memory:    "unknown",
		Java:      "unknown",
	}
	if kb, err := strconv.Atoi(fromFile("/proc/meminfo", `(?m)^MemTotal:\s*(\d+) kB`)); err == nil {
		s.Memory = fmt.Sprintf("%.0f GB", float64(kb)/1e6)
	}
	// java prints its version to stderr.
	if out, err := exec.Command("java", "-version").CombinedOutput(); err == nil {
		s.Java = firstMatch(string(out), `version "([^"]+)"`)
	}
	mntr, err := l.server.Mntr()
	if err != nil {
		return s, err
	}
	s.ZooKeeper = firstMatch(mntr["zk_version"], `^([0-9.]+)`)
	s.Sync = mntr["zk_avg_fsynctime"] + " ms"
	s.SyncCount = mntr["zk_cnt_fsynctime"]
	for _, name := range []string{curator, kazoo} {
		if p := l.peers[name]; p != nil {
			s.Peers = append(s.Peers, p.version)
		}
	}
	return s, nil
}

// clientVersion returns the client's version in go.mod, which a test binary does not contain.
func clientVersion() string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/go-zookeeper/zk").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func fromFile(name, pattern string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return "unknown"
	}
	return firstMatch(string(text), pattern)
}

func firstMatch(text, pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1])
	}
	return "unknown"
}

// readLocal parses the output of go test -bench. Without the file the page lacks that section.
func readLocal(name string) ([]local, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type figures struct{ nanos, allocs []float64 }
	var order []local
	seen := map[local]*figures{}
	pkg := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && fields[0] == "pkg:" {
			_, pkg, _ = strings.Cut(fields[1], "zklocks/zklocks/")
		}
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		key := local{Package: pkg, Name: processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")}
		if seen[key] == nil {
			seen[key] = &figures{}
			order = append(order, key)
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			switch fields[i+1] {
			case "ns/op":
				seen[key].nanos = append(seen[key].nanos, v)
			case "allocs/op":
				seen[key].allocs = append(seen[key].allocs, v)
			}
		}
	}
	for i, key := range order {
		order[i].Time = duration(median(seen[key].nanos) / 1000)
		order[i].Allocs = number(median(seen[key].allocs))
	}
	return order, nil
}

// processors matches the end of a benchmark's name: the number of processors.
var processors = regexp.MustCompile(`-\d+$`)
