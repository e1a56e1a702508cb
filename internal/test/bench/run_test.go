package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// sample is a peer's measurement in one round of one workload.
type sample struct {
	answer
	perSecond     float64
	requests      float64 // per cycle, as counted by the server
	notifications float64
	processor     float64 // server's processor time per cycle, in microseconds; 0: unknown
	own           float64 // the same for the peer
}

// result is a row of the table: the median of the rounds for each figure.
type result struct {
	workload workload
	peer     string
	sample
	slowest, fastest float64   // operations per second
	rounds           []float64 // operations per second of each round
}

// against returns how many times as fast as a peer r is: the median of the rounds' ratios. Other
// load on the machine affects both peers of a round.
func (r result) against(peer result) float64 {
	var ratios []float64
	for i, n := range peer.rounds {
		if i < len(r.rounds) && n > 0 {
			ratios = append(ratios, r.rounds[i]/n)
		}
	}
	if len(ratios) == 0 {
		return math.NaN()
	}
	return median(ratios)
}

// laboratory is the server and the peers that are measured on it.
type laboratory struct {
	settings
	server  *realzk.Server
	peers   map[string]*peer
	skipped []string
	paths   int
}

// newLaboratory starts a server that waits for the disk at each commit, as in production: its log
// is with the temporary files, not in memory. s.Disk makes an unusually fast disk slower.
func newLaboratory(t *testing.T, s settings, names ...string) *laboratory {
	t.Helper()
	server := realzk.Standalone(t, realzk.Options{
		ForceSync:      true,
		Tick:           2 * time.Second,
		ContainerCheck: time.Minute,
		Config:         map[string]string{"dataLogDir": t.TempDir(), "preAllocSize": "65536"},
		JVM:            []string{"-XX:TieredStopAtLevel=4", "-Xmx768m"},
		Env:            slowDisk(t, s.Disk),
	})
	peers, skipped := startPeers(t, names...)
	return &laboratory{settings: s, server: server, peers: peers, skipped: skipped}
}

// measure runs all workloads, round after round. The peers run in random order, so that no peer
// gains from its predecessor.
func (l *laboratory) measure(t *testing.T, workloads []workload) []result {
	t.Helper()
	samples := map[string]map[string][]sample{}
	for round := range l.Rounds {
		for _, w := range workloads {
			present := l.present(w)
			if samples[w.name] == nil {
				samples[w.name] = map[string][]sample{}
			}
			for _, i := range rand.Perm(len(present)) {
				p := present[i]
				s := l.once(t, p, w.job)
				samples[w.name][p.name] = append(samples[w.name][p.name], s)
				t.Logf("round %d: %s, %s: %.0f/s %s", round+1, w.name, p.name, s.perSecond, s.Error)
			}
		}
	}
	var results []result
	for _, w := range workloads {
		for _, p := range l.present(w) {
			results = append(results, summary(w, p.name, samples[w.name][p.name]))
		}
	}
	return results
}

func (l *laboratory) present(w workload) []*peer {
	var some []*peer
	for _, name := range w.peers {
		if p := l.peers[name]; p != nil && (l.Peers == nil || l.Peers.MatchString(name)) {
			some = append(some, p)
		}
	}
	return some
}

// warmUp makes every peer run all workloads briefly, for the JIT compilers in the server and in the
// peers.
func (l *laboratory) warmUp(t *testing.T, workloads []workload) {
	t.Helper()
	quick := *l
	quick.Warm, quick.For = 0, time.Second
	seen := map[string]bool{}
	for _, w := range workloads {
		for _, p := range l.present(w) {
			if key := p.name + w.job.Mode; !seen[key] {
				seen[key] = true
				quick.once(t, p, w.job)
			}
		}
	}
	l.paths = quick.paths
}

// once runs a peer once, on its own path.
func (l *laboratory) once(t *testing.T, p *peer, j job) sample {
	t.Helper()
	l.paths++
	j.Path = fmt.Sprintf("/bench/%d", l.paths)
	j.Servers = l.server.Addr()
	j.Timeout = int(sessionTimeout.Milliseconds())
	j.Warm = int(l.Warm.Milliseconds())
	j.Measure = int(l.For.Milliseconds())
	var before, after counts
	a := p.do(t, j, func() {
		before = l.count(t, p)
	}, func() {
		after = l.count(t, p)
		if p.name == ours || p.name == again {
			test.Eventually(t, 10*time.Second, "no lock node is left", func() bool {
				return l.count(t, p).ephemerals == 0
			})
		}
	})
	if (p.name == ours || p.name == again) && a.Errors > 0 {
		t.Errorf("%+v: %d errors: %s", j, a.Errors, a.Error)
	}
	cycles := float64(max(a.Cycles, 1))
	return sample{
		answer:        a,
		perSecond:     float64(a.Operations) / l.For.Seconds(),
		requests:      float64(after.requests-before.requests) / cycles,
		notifications: float64(after.notifications-before.notifications) / cycles,
		processor:     micros(after.processor-before.processor) / cycles,
		own:           micros(after.own-before.own) / cycles,
	}
}

// counts are the server's counters, and the peer's processor time.
type counts struct {
	requests      int64 // including pings and heartbeats
	notifications int64 // one for each watch that fired
	ephemerals    int64
	processor     time.Duration
	own           time.Duration
}

func (l *laboratory) count(t *testing.T, p *peer) counts {
	t.Helper()
	requests, err := l.server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	mntr, err := l.server.Mntr()
	if err != nil {
		t.Fatal(err)
	}
	number := func(key string) int64 {
		n, err := strconv.ParseInt(mntr[key], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		return n
	}
	c := counts{
		requests:   requests,
		ephemerals: number("zk_ephemerals_count"),
		processor:  processorTime(l.server.PID()),
		own:        processorTime(p.driver.PID()),
	}
	for _, what := range []string{"created", "deleted", "changed", "children"} {
		c.notifications += number("zk_sum_node_" + what + "_watch_count")
	}
	return c
}

// processorTime returns the processor time of a process; 0 if there is no /proc.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain anything. After it, the 12th and 13th fields are user
	// and system time in ticks of 10 ms.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var sum time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum
}

func summary(w workload, peer string, samples []sample) result {
	middle := func(of func(sample) float64) float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = of(s)
		}
		return median(values)
	}
	speed := func(a, b sample) int { return cmp.Compare(a.perSecond, b.perSecond) }
	r := result{
		workload: w, peer: peer,
		slowest: slices.MinFunc(samples, speed).perSecond,
		fastest: slices.MaxFunc(samples, speed).perSecond,
	}
	r.perSecond = middle(func(s sample) float64 { return s.perSecond })
	r.requests = middle(func(s sample) float64 { return s.requests })
	r.notifications = middle(func(s sample) float64 { return s.notifications })
	r.processor = middle(func(s sample) float64 { return s.processor })
	r.own = middle(func(s sample) float64 { return s.own })
	r.P50 = middle(func(s sample) float64 { return s.P50 })
	r.P99 = middle(func(s sample) float64 { return s.P99 })
	r.Max = middle(func(s sample) float64 { return s.Max })
	for _, s := range samples {
		r.rounds = append(r.rounds, s.perSecond)
		r.Operations += s.Operations
		r.Cycles += s.Cycles
		r.Errors += s.Errors
		if r.Error == "" {
			r.Error = s.Error
		}
	}
	return r
}

// median returns the median. It sorts values.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

// leave ends the drivers, which check that they leave nothing behind.
func (l *laboratory) leave() {
	for _, p := range l.peers {
		p.driver.Say("bye")
		p.driver.Hears("left")
	}
}
