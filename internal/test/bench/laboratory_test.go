package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// laboratory is the server and the peers that are measured on it.
type laboratory struct {
	settings
	server *realzk.Server
	peers  map[string]*realzk.Child
	paths  int
	asked  int // how often the counters were read, each time with a packet
}

// newLaboratory starts a server that waits for the disk at each commit, as in production: its log
// is with the temporary files, not in memory. Peers that are not installed are left out.
func newLaboratory(t *testing.T, s settings, names ...string) *laboratory {
	t.Helper()
	options := realzk.Options{
		ForceSync:      true,
		Tick:           2 * time.Second,
		ContainerCheck: time.Minute,
		Config:         map[string]string{"dataLogDir": t.TempDir(), "preAllocSize": "65536"},
		JVM:            []string{"-XX:TieredStopAtLevel=4", "-Xmx768m"},
	}
	if s.disk > 0 {
		options.Env = slowDisk(t, s.disk)
	}
	l := &laboratory{settings: s, server: realzk.Standalone(t, options), peers: map[string]*realzk.Child{}}
	for _, name := range names {
		var cmd *exec.Cmd
		missing := ""
		switch name {
		case curator:
			cmd, missing = realzk.CuratorProgram(t, filepath.Join("curator", "Driver.java"))
		case kazoo:
			cmd, missing = realzk.KazooProgram(filepath.Join("kazoo", "driver.py"))
		default:
			l.peers[name] = startPeer(name, realzk.StartChild(t, childEnv, name))
			continue
		}
		if missing != "" {
			fmt.Println(missing)
			continue
		}
		l.peers[name] = startPeer(name, realzk.StartProgram(t, cmd))
	}
	return l
}

func startPeer(name string, driver *realzk.Child) *realzk.Child {
	fmt.Printf("%s: %s\n", name, driver.Hears("hello"))
	return driver
}

// slowDisk returns the environment of a server in which each flush of the disk takes longer. A
// preloaded library delays the system calls; the server is unchanged.
func slowDisk(t *testing.T, longer time.Duration) (env []string) {
	library := filepath.Join(t.TempDir(), "slow.so")
	command(t, ".", cmp.Or(os.Getenv("CC"), "cc"), "-O2", "-shared", "-fPIC", "-o", library, "disk/slow.c", "-ldl")
	return []string{"LD_PRELOAD=" + library, fmt.Sprintf("DISK_NANOSECONDS=%d", longer.Nanoseconds())}
}

// leave ends the drivers, and checks that the server's disk was as slow as requested.
func (l *laboratory) leave(t *testing.T) {
	t.Helper()
	for _, p := range l.peers {
		p.Say("bye")
		p.Hears("left")
	}
	flush, err := strconv.ParseFloat(l.counters(t)["zk_avg_fsynctime"], 64)
	if took := time.Duration(flush * float64(time.Millisecond)); l.disk > 0 && (err != nil || took < l.disk) {
		t.Errorf("a flush took %v (%v), not %v", took, err, l.disk)
	}
}

// measure runs all workloads, round after round, after a short run of each kind of job for the JIT
// compilers. The peers run in random order, so that no peer gains from its predecessor.
func (l *laboratory) measure(t *testing.T, workloads []workload) (results []result) {
	t.Helper()
	warm := map[string]bool{}
	at := map[string]int{} // of a workload and peer in results
	for _, w := range workloads {
		for _, name := range w.peers {
			p := l.peers[name]
			if p == nil {
				continue
			}
			if kind := name + w.job.Mode; !warm[kind] {
				warm[kind] = true
				l.once(t, name, w.job)
			}
			at[w.name+name] = len(results)
			results = append(results, result{workload: w, peer: name})
		}
	}
	for round := range l.rounds {
		for _, w := range workloads {
			for _, i := range rand.Perm(len(w.peers)) {
				name := w.peers[i]
				if l.peers[name] == nil {
					continue
				}
				f, a := l.once(t, name, w.job)
				t.Logf("round %d: %s, %s: %.0f/s %s", round+1, w.name, name, f[speed], a.Error)
				r := &results[at[w.name+name]]
				r.rounds = append(r.rounds, f)
				r.errors += a.Errors
			}
		}
	}
	summarize(results)
	return results
}

// once runs a peer once, on its own path.
func (l *laboratory) once(t *testing.T, name string, j job) (figures, answer) {
	t.Helper()
	l.paths++
	j.Path, j.Servers = fmt.Sprintf("/bench/%d", l.paths), l.server.Addr()
	j.Timeout = int(sessionTimeout.Milliseconds())
	j.Warm, j.Measure = int(l.warm.Milliseconds()), int(l.length.Milliseconds())
	order, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	driver := l.peers[name]
	driver.Say(string(order))
	driver.Hears("ready")
	before := l.count(t)
	driver.Say("go")
	var a answer
	if err := json.Unmarshal([]byte(driver.Hears("done")), &a); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	f := l.count(t)
	driver.Say("end")
	driver.Hears("closed")
	if a.Errors > 0 && strings.HasPrefix(name, ours) {
		t.Errorf("%s, %+v: %d errors: %s", name, j, a.Errors, a.Error)
	}
	for i := range f { // per cycle
		f[i] = (f[i] - before[i]) / float64(max(a.Cycles, 1))
	}
	f[speed], f[p50], f[p99] = float64(a.Operations)/l.length.Seconds(), a.P50, a.P99
	return f, a
}

// count returns the server's counters.
func (l *laboratory) count(t *testing.T) (f figures) {
	t.Helper()
	counters := l.counters(t)
	number := func(key string) float64 {
		n, err := strconv.ParseFloat(counters[key], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	l.asked++
	f[requests] = number("zk_packets_received") - float64(l.asked) // including pings and heartbeats
	f[processor] = micros(processorTime(l.server.PID()))
	for _, what := range []string{"created", "deleted", "changed", "children"} { // one for each watch that fired
		f[notifications] += number("zk_sum_node_" + what + "_watch_count")
	}
	return f
}

func (l *laboratory) counters(t *testing.T) map[string]string {
	t.Helper()
	mntr, err := l.server.Mntr()
	if err != nil {
		t.Fatal(err)
	}
	return mntr
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
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
