package metrics_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/metrics"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// The alerts are tested on fleets of programs that use the real library and the real metrics, in
// virtual time. A fleet is scraped each minute, and promtool evaluates alerts.yml on what was
// scraped.

const (
	day  = 24 * time.Hour
	long = 9 * time.Hour // longer than each rule waits, or looks back
)

// No alert may fire in a fleet that works as its owner wants.
func TestHealthyFleetsRaiseNoAlert(t *testing.T) {
	promtool(t)
	for name, play := range map[string]func(*fleet){
		"elections with standbys":                                elections,
		"a job of five hours each night, and machines that wait": nightly,
		"a thousand customers under one label":                   func(f *fleet) { customers(f); f.scrape(long) },
		"a semaphore of which one permit is held for long":       slowPermit,
		"a rolling restart of the programs, then of the servers": rollingRestart,
		"short calls, some of which are busy or canceled":        shortCalls,
		"callers that bound their wait and sometimes give up":    boundedWaits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if fired := alerts(t, rules(t), play); len(fired) > 0 {
				t.Errorf("%v fired", fired)
			}
		})
	}
}

func elections(f *fleet) {
	for _, name := range []string{"a", "b", "c"} {
		p := f.start(name)
		for _, path := range []string{"/controllers/billing", "/controllers/mail"} {
			p.campaign(path)
		}
	}
	f.scrape(long)
}

func nightly(f *fleet) {
	last := -1 // the night that is done
	for _, name := range []string{"a", "b", "c"} {
		p := f.start(name)
		lock := rwlock.New(p.conn, "/jobs/nightly")
		p.each(day, time.Hour, func(ctx context.Context) {
			p.do(ctx, lock.Lock, func(ctx context.Context) {
				if night := int(f.now() / day); last < night {
					p.sleep(ctx, 5*time.Hour)
					last = night
				}
			})
		})
	}
	f.scrape(day)
	if last != 0 {
		f.Errorf("night %d is done, want night 0", last)
	}
}

// customers locks each of 1,000 customers for a minute every four hours, from two processes.
func customers(f *fleet) {
	for _, name := range []string{"a", "b"} {
		p := f.start(name, metrics.PathLabel(path.Dir))
		for i := range 1000 {
			lock := rwlock.New(p.conn, fmt.Sprint("/customers/", i))
			p.each(4*time.Hour, time.Duration(i)*14*time.Second, func(ctx context.Context) {
				p.do(ctx, lock.Lock, func(ctx context.Context) { p.sleep(ctx, time.Minute) })
			})
		}
	}
}

func slowPermit(f *fleet) {
	for _, name := range []string{"a", "b", "c", "d"} {
		p := f.start(name)
		pool := semaphore.New(p.conn, "/pool", 3)
		work := 20 * time.Second
		if name == "a" {
			work = 5 * time.Hour
		}
		for range 2 {
			p.each(time.Minute, 0, func(ctx context.Context) {
				p.do(ctx, pool.Locker(1).Lock, func(ctx context.Context) { p.sleep(ctx, work) })
				if name == "a" {
					p.sleep(ctx, time.Hour)
				}
			})
		}
	}
	f.scrape(long)
}

func rollingRestart(f *fleet) {
	start := func(name string) *process {
		p := f.start(name)
		p.campaign("/controllers/billing")
		index := rwlock.New(p.conn, "/index")
		p.each(time.Minute, 0, func(ctx context.Context) {
			p.do(ctx, zklocks.Within(time.Minute, index.Lock), func(ctx context.Context) { p.sleep(ctx, time.Second) })
		})
		p.each(10*time.Second, 0, func(ctx context.Context) {
			p.do(ctx, zklocks.Within(time.Minute, index.RLock), func(ctx context.Context) { p.sleep(ctx, time.Second) })
		})
		return p
	}
	names := []string{"a", "b", "c"}
	running := map[string]*process{}
	for _, name := range names {
		running[name] = start(name)
	}
	for range 2 {
		f.scrape(2 * time.Hour)
		for _, name := range names {
			running[name].stop()
			f.scrape(time.Minute)
			running[name] = start(name)
			f.scrape(5 * time.Minute)
		}
		f.scrape(2 * time.Hour)
		for _, m := range f.server.Members() {
			m.Kill()
			time.Sleep(2 * time.Second) // virtual
			m.Restart()
			f.scrape(5 * time.Minute)
		}
	}
	f.scrape(2 * time.Hour)
}

func shortCalls(f *fleet) {
	for _, name := range []string{"a", "b", "c"} {
		p := f.start(name)
		lock := rwlock.New(p.conn, "/refresh")
		p.each(time.Minute, 0, func(ctx context.Context) {
			p.do(ctx, lock.TryLock, func(ctx context.Context) { p.sleep(ctx, 90*time.Second) })
		})
		p.each(time.Minute, 0, func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx) // a client that leaves
			time.AfterFunc(time.Second, cancel)
			p.do(ctx, lock.Lock, func(context.Context) {})
		})
		for _, locker := range []zklocks.Locker{rwlock.New(p.conn, "/tick"), reentrant.New(p.conn, "/tock")} {
			const early = 50 * time.Microsecond // each scrape shows calls that wait, and no hold
			p.each(time.Minute, time.Minute-early, func(ctx context.Context) {
				p.do(ctx, locker.Lock, func(context.Context) {})
			})
		}
	}
	f.scrape(long)
}

// boundedWaits has callers that wait for five seconds, and a job that keeps the lock for twelve seconds
// every five minutes. Once an hour a client is cut off for ten seconds.
func boundedWaits(f *fleet) {
	a, b := f.start("a"), f.start("b")
	for _, p := range []*process{a, b} {
		lock := rwlock.New(p.conn, "/cart")
		p.each(10*time.Second, 0, func(ctx context.Context) {
			p.do(ctx, zklocks.Within(5*time.Second, lock.Lock), func(ctx context.Context) { p.sleep(ctx, 100*time.Millisecond) })
		})
	}
	b.each(5*time.Minute, time.Minute, func(ctx context.Context) {
		b.do(ctx, rwlock.New(b.conn, "/cart").Lock, func(ctx context.Context) { b.sleep(ctx, 12*time.Second) })
	})
	a.each(time.Hour, 30*time.Minute, func(ctx context.Context) {
		a.host.Partition()
		a.sleep(ctx, 10*time.Second)
		a.host.Heal()
	})
	f.scrape(12 * time.Hour)
	counts := values(f.T, a.registry)
	for _, reason := range []string{"timeout", "no_answer"} {
		if series := "zklocks_failed_total{kind=write,path=/cart,reason=" + reason + "}"; counts[series] < 10 {
			f.Errorf("%s is %v", series, counts[series])
		}
	}
}

// Each alert fires for its faults.
func TestAlertsFireForTheirFaults(t *testing.T) {
	promtool(t)
	tested := map[string]bool{}
	for _, c := range []struct {
		name  string
		want  []string
		limit bool // with a limit of ten minutes for /jobs/import
		fault func(*fleet)
	}{
		{name: "the network of a holder is down", want: []string{"ZklocksHoldLost"}, fault: func(f *fleet) {
			p := f.start("a")
			p.hold("/jobs/import")
			f.scrape(time.Hour)
			p.host.Partition()
			f.scrape(3 * time.Minute)
			p.host.Heal()
			f.scrape(time.Hour)
		}},
		{name: "servers stall for almost as long as a hold survives", want: []string{"ZklocksHoldInDanger"}, fault: func(f *fleet) {
			p := f.start("a")
			p.hold("/jobs/import")
			f.scrape(time.Hour)
			p.host.Freeze()
			time.Sleep(3500 * time.Millisecond) // virtual
			p.host.Thaw()
			f.scrape(time.Hour)
		}},
		{name: "a process that nobody scrapes leads", want: []string{"ZklocksNobodyLeads"}, fault: func(f *fleet) {
			f.unseen().campaign("/controllers/billing")
			time.Sleep(time.Second) // virtual
			f.start("a").campaign("/controllers/billing")
			f.scrape(time.Hour)
		}},
		{name: "no server answers", want: []string{"ZklocksHoldLost", "ZklocksNoGrant", "ZklocksNobodyLeads"}, fault: func(f *fleet) {
			f.start("a").campaign("/controllers/billing")
			p := f.start("b")
			p.campaign("/controllers/billing")
			f.scrape(time.Hour)
			f.server.Host("a").Partition()
			p.host.Partition()
			lock := rwlock.New(p.conn, "/jobs/import")
			p.each(time.Hour, 0, func(ctx context.Context) { p.do(ctx, lock.Lock, func(context.Context) {}) })
			f.scrape(15 * time.Minute)
			f.server.Host("a").Heal()
			p.host.Heal()
			f.scrape(time.Hour)
		}},
		{name: "bounded calls while no server answers", want: []string{"ZklocksNoAnswer"}, fault: func(f *fleet) {
			p := f.start("a")
			lock := rwlock.New(p.conn, "/jobs/import")
			p.each(time.Minute, 0, func(ctx context.Context) {
				p.do(ctx, zklocks.Within(5*time.Second, lock.Lock), func(context.Context) {})
			})
			f.scrape(time.Hour)
			p.host.Partition()
			f.scrape(10 * time.Minute)
			p.host.Heal()
			f.scrape(time.Hour)
		}},
		{name: "a node that nobody owns", want: []string{"ZklocksNoGrant", "ZklocksWaitsForLong"}, fault: func(f *fleet) {
			f.unseen().hold("/jobs/import")
			p := f.start("a")
			p.each(day, 0, func(ctx context.Context) {
				p.do(ctx, rwlock.New(p.conn, "/jobs/import").Lock, func(context.Context) {})
			})
			f.scrape(7 * time.Hour)
		}},
		{name: "one of two permits hangs", want: []string{"ZklocksHeldForLong"}, fault: func(f *fleet) {
			p := f.start("a")
			pool := semaphore.New(p.conn, "/pool", 2)
			p.each(day, 0, func(ctx context.Context) {
				p.do(ctx, pool.Locker(1).Lock, func(ctx context.Context) { p.sleep(ctx, day) })
			})
			p.each(time.Minute, 0, func(ctx context.Context) {
				p.do(ctx, pool.Locker(1).Lock, func(ctx context.Context) { p.sleep(ctx, 20*time.Second) })
			})
			f.scrape(7 * time.Hour)
		}},
		{name: "one of a thousand customers hangs", want: []string{"ZklocksHeldForLong", "ZklocksWaitsForLong"}, fault: func(f *fleet) {
			customers(f)
			f.start("c", metrics.PathLabel(path.Dir)).hold("/customers/7")
			f.scrape(9 * time.Hour)
		}},
		{name: "a job hangs that has a limit", limit: true, want: []string{"ZklocksHeldForLong", "ZklocksWaitsForLong"}, fault: func(f *fleet) {
			f.start("a").hold("/jobs/import")
			p := f.start("b")
			p.each(day, time.Minute, func(ctx context.Context) {
				p.do(ctx, rwlock.New(p.conn, "/jobs/import").Lock, func(context.Context) {})
			})
			f.scrape(20 * time.Minute)
		}},
		{name: "a hold is dropped", want: []string{"ZklocksHoldLeaked"}, fault: func(f *fleet) {
			p := f.start("a")
			lock := rwlock.New(p.conn, "/jobs/import")
			if err := p.hold("/jobs/other").Release(p.ctx); err != nil {
				f.Error(err)
			}
			leak := func() {
				if _, err := lock.Lock(p.ctx); err != nil {
					f.Error(err)
				}
			}
			f.scrape(time.Hour)
			leak()
			leaked := func() float64 { return values(f.T, p.registry)["zklocks_leaked_total{kind=write,path=/jobs/import}"] }
			f.scrape(time.Minute)
			for range 1000 {
				if runtime.GC(); leaked() == 1 {
					break
				}
			}
			f.scrape(time.Hour)
		}},
		{name: "callers that do not wait long enough", want: []string{"ZklocksTimeouts"}, fault: func(f *fleet) {
			p := f.start("a")
			p.hold("/jobs/import")
			lock := rwlock.New(p.conn, "/jobs/import")
			p.each(time.Hour, 30*time.Minute, func(ctx context.Context) {
				p.do(ctx, zklocks.Within(5*time.Second, lock.Lock), func(context.Context) {})
			})
			f.scrape(2 * time.Hour)
		}},
		{name: "a right is missing", want: []string{"ZklocksDenied"}, fault: func(f *fleet) {
			p := f.start("a")
			p.hold("/jobs/import")
			f.scrape(time.Hour)
			if _, err := p.conn.Client().SetACL("/jobs/import", zk.WorldACL(zk.PermRead), -1); err != nil {
				f.Error(err)
			}
			if _, err := rwlock.New(p.conn, "/jobs/import").Lock(p.ctx); !errors.Is(err, zk.ErrNoAuth) {
				f.Error(err)
			}
			f.scrape(time.Hour)
		}},
		{name: "connections break", want: []string{"ZklocksRetries"}, fault: func(f *fleet) {
			p := f.start("a")
			lock := rwlock.New(p.conn, "/jobs/import")
			p.each(5*time.Second, 0, func(ctx context.Context) {
				p.host.Next(zktest.Delete, zktest.CutBefore)
				p.do(ctx, lock.Lock, func(context.Context) {})
			})
			f.scrape(time.Hour)
		}},
	} {
		for _, alert := range c.want {
			tested[alert] = true
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rules(t)
			if c.limit {
				r = regexp.MustCompile(`(?m)^ {6}# ((- |  )\w+: .*)$`).ReplaceAllString(r, "      $1")
			}
			if fired := alerts(t, r, c.fault); !slices.Equal(fired, c.want) {
				t.Errorf("%v fired, want %v", fired, c.want)
			}
		})
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules(t), -1) {
		if !tested[m[1]] {
			t.Errorf("no fault is tested for %s", m[1])
		}
	}
}

func rules(t *testing.T) string {
	text, err := os.ReadFile("alerts.yml")
	must(t, err)
	return string(text)
}

// promtool returns the path of Prometheus' tool, which scripts/promtool.sh installs for make test.
func promtool(t *testing.T) string {
	t.Helper()
	for _, name := range []string{cmp.Or(os.Getenv("PROMTOOL"), "promtool"), "../bin/promtool"} {
		if found, err := exec.LookPath(name); err == nil {
			found, err = filepath.Abs(found) // it runs in another directory
			must(t, err)
			return found
		}
	}
	if os.Getenv("ZKLOCKS_REAL") != "" {
		t.Fatal("no promtool: scripts/promtool.sh installs it")
	}
	t.Skip("no promtool: scripts/promtool.sh installs it")
	return ""
}

// alerts plays a fleet, and returns which alerts fired.
func alerts(t *testing.T, rules string, play func(*fleet)) (fired []string) {
	t.Helper()
	f := &fleet{series: map[string][]string{}}
	synctest.Test(t, func(t *testing.T) {
		f.T, f.began = t, time.Now()
		f.server = zktest.NewServer(t, zktest.WithMembers(3), zktest.WithHoldsLeft())
		play(f)
		for p := range maps.Clone(f.processes) {
			p.stop()
		}
	})
	if t.Failed() {
		return nil
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(rules), 0o644))
	type values struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	var input []values
	for _, s := range slices.Sorted(maps.Keys(f.series)) {
		input = append(input, values{s, strings.Join(f.series[s], " ")})
	}
	// promtool prints samples only if it did not expect them. Nothing fires under this name.
	question, err := json.Marshal(map[string]any{ // JSON is YAML
		"rule_files": []string{"alerts.yml"}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{
			"interval": "1m", "input_series": input,
			"promql_expr_test": []any{map[string]any{
				"expr":        fmt.Sprintf(`group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[%dm]))`, f.scrapes+1),
				"eval_time":   fmt.Sprintf("%dm", f.scrapes),
				"exp_samples": []any{map[string]any{"labels": `{alertname="none"}`, "value": 1}},
			}},
		}},
	})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "test.json"), question, 0o644))
	cmd := exec.Command(promtool(t), "test", "rules", "test.json")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !bytes.Contains(out, []byte(`{alertname="none"}`)) {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	_, got, _ := strings.Cut(string(out), "got:")
	for _, m := range regexp.MustCompile(`alertname="(\w+)"`).FindAllStringSubmatch(got, -1) {
		fired = append(fired, m[1])
	}
	slices.Sort(fired)
	return fired
}

// A fleet is the processes that one Prometheus scrapes.
type fleet struct {
	*testing.T
	server    *zktest.Server
	began     time.Time
	scrapes   int
	processes map[*process]bool
	series    map[string][]string // by name and labels, the values of each scrape, as promtool reads them
}

// now returns how long the fleet has run.
func (f *fleet) now() time.Duration { return time.Since(f.began) }

// scrape scrapes all processes, at each full minute.
func (f *fleet) scrape(d time.Duration) {
	for range d / time.Minute {
		time.Sleep(time.Minute - f.now()%time.Minute) // virtual
		f.scrapes++
		for p := range f.processes {
			families, err := p.registry.Gather()
			if err != nil {
				f.Fatal(err)
			}
			for _, family := range families {
				for _, m := range family.GetMetric() {
					labels := []string{fmt.Sprintf("instance=%q", p.name)}
					for _, l := range m.GetLabel() {
						labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
					}
					name, of := family.GetName(), "{"+strings.Join(labels, ",")+"}"
					if h := m.GetHistogram(); h != nil {
						f.sample(name+"_count"+of, float64(h.GetSampleCount()))
						f.sample(name+"_sum"+of, h.GetSampleSum())
					} else {
						f.sample(name+of, m.GetGauge().GetValue()+m.GetCounter().GetValue())
					}
				}
			}
		}
		for s, all := range f.series {
			for len(f.series[s]) <= f.scrapes { // it was not scraped
				gap := "_"
				if last := all[len(all)-1]; last != "_" && last != "stale" {
					gap = "stale"
				}
				all = append(all, gap)
				f.series[s] = all
			}
		}
	}
}

func (f *fleet) sample(series string, value float64) {
	if f.series[series] == nil {
		f.series[series] = slices.Repeat([]string{"_"}, f.scrapes)
	}
	f.series[series] = append(f.series[series], strconv.FormatFloat(value, 'f', -1, 64))
}

// A process uses locks. Prometheus scrapes it while it runs.
type process struct {
	f        *fleet
	name     string
	host     *zktest.Host
	conn     *zklocks.Conn
	registry *prometheus.Registry
	ctx      context.Context
	end      context.CancelFunc
	work     sync.WaitGroup
}

func (f *fleet) start(name string, opts ...metrics.Option) *process {
	p := &process{f: f, name: name, host: f.server.Host(name), registry: prometheus.NewRegistry()}
	p.conn = p.host.Connect(f.T, 10*time.Second, zklocks.WithObserver(metrics.Observer(p.registry, opts...)))
	metrics.Heartbeats(p.registry, p.conn)
	p.ctx, p.end = context.WithCancel(f.Context())
	if f.processes == nil {
		f.processes = map[*process]bool{}
	}
	f.processes[p] = true
	return p
}

// unseen starts a process that Prometheus does not scrape.
func (f *fleet) unseen() *process {
	p := f.start("unseen")
	delete(f.processes, p)
	f.Cleanup(p.stop)
	return p
}

func (p *process) stop() {
	delete(p.f.processes, p)
	p.end()
	p.work.Wait()
	p.conn.Close()
}

// each calls work in each period, first after a delay, as long as the process runs.
func (p *process) each(period, delay time.Duration, work func(context.Context)) {
	p.work.Go(func() {
		for begin := delay; ; begin += period * max(1, 1+(p.f.now()-begin)/period) {
			if p.sleep(p.ctx, begin-p.f.now()); p.ctx.Err() != nil {
				return
			}
			work(p.ctx)
		}
	})
}

// do works under a lock. What its errors are, the metrics count.
func (p *process) do(ctx context.Context, lock func(context.Context) (*zklocks.Hold, error), work func(context.Context)) {
	_ = zklocks.Do(ctx, lock, func(ctx context.Context, _ *zklocks.Hold) error {
		work(ctx)
		return nil
	})
}

// hold acquires a lock for as long as the process runs.
func (p *process) hold(path string) *zklocks.Hold {
	h, err := rwlock.New(p.conn, path).Lock(p.ctx)
	if err != nil {
		p.f.Fatal(err)
	}
	p.work.Go(func() {
		<-p.ctx.Done()
		_ = h.Release(context.WithoutCancel(p.ctx))
	})
	return h
}

func (p *process) campaign(path string) {
	election := leader.New(p.conn, path)
	p.work.Go(func() {
		_ = election.Run(p.ctx, func(ctx context.Context, _ *zklocks.Hold) error {
			<-ctx.Done()
			return ctx.Err()
		})
	})
}

func (p *process) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d): // virtual
	case <-ctx.Done():
	}
}
