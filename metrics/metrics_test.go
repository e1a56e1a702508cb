package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/metrics"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// values returns what Prometheus would read, by "name{label=value,...}"; for a histogram, the
// number of observations.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			all[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// checks asserts some of the values.
func checks(t *testing.T, registry *prometheus.Registry, when string, want map[string]float64) {
	t.Helper()
	got := values(t, registry)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if v, there := got[key]; !there || v != want[key] {
			t.Errorf("%s: %s is %v (there: %v), want %v", when, key, v, there, want[key])
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCallsAndHoldsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, s := prometheus.NewRegistry(), zktest.NewServer(t)
		host := s.Host("a")
		mu := rwlock.New(host.Connect(t, 10*time.Second, zklocks.WithObserver(metrics.Observer(registry))), "/x")
		held, err := rwlock.New(s.Host("b").Connect(t, 10*time.Second), "/x").Lock(t.Context())
		must(t, err)
		_, busy := mu.TryLock(t.Context())
		_, late := zklocks.Within(time.Second, mu.Lock)(t.Context())
		if !errors.Is(busy, zklocks.ErrBusy) || !errors.Is(late, context.DeadlineExceeded) {
			t.Fatal(busy, late)
		}
		granted := make(chan *zklocks.Hold)
		go func() {
			h, err := mu.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			granted <- h
		}()
		time.Sleep(time.Second) // virtual
		checks(t, registry, "waiting", map[string]float64{
			"zklocks_failed_total{kind=write,path=/x,reason=busy}":    1,
			"zklocks_failed_total{kind=write,path=/x,reason=timeout}": 1,
			"zklocks_failed_total{kind=write,path=/x,reason=other}":   0,
			"zklocks_waiting{kind=write,path=/x}":                     1,
			"zklocks_ahead{kind=write,path=/x}":                       2,
			"zklocks_lost_total{kind=write,path=/x}":                  0,
		})
		must(t, held.Release(t.Context()))
		h := <-granted
		checks(t, registry, "holding", map[string]float64{
			"zklocks_waiting{kind=write,path=/x}":                0,
			"zklocks_holding{kind=write,path=/x}":                1,
			"zklocks_wait_seconds{joined=no,kind=write,path=/x}": 1,
		})
		lost := host.Next(zktest.Delete, zktest.CutBefore)
		must(t, h.Release(t.Context()))
		<-lost.Fired()
		h, err = mu.Lock(t.Context())
		must(t, err)
		host.Partition()
		<-h.Lost()
		if _, err := zklocks.Within(time.Second, mu.RLock)(t.Context()); !errors.Is(err, zklocks.ErrNoAnswer) {
			t.Error(err)
		}
		checks(t, registry, "released, and lost", map[string]float64{
			"zklocks_holding{kind=write,path=/x}":                      0,
			"zklocks_hold_seconds{kind=write,path=/x}":                 2,
			"zklocks_retries_total{op=delete,path=/x}":                 1,
			"zklocks_lost_total{kind=write,path=/x}":                   1,
			"zklocks_failed_total{kind=write,path=/x,reason=lost}":     0,
			"zklocks_failed_total{kind=read,path=/x,reason=no_answer}": 1,
		})
	})
}

func TestHeartbeatsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		host := zktest.NewServer(t).Host("here")
		conn := host.Connect(t, timeout)
		registry := prometheus.NewRegistry()
		metrics.Heartbeats(registry, conn)
		// measures asserts a range of the latency, in seconds, and of the margin.
		measures := func(when string, shortest, longest, smallest, largest float64) {
			t.Helper()
			got := values(t, registry)
			latency, margin := got["zklocks_heartbeat_seconds{}"], got["zklocks_heartbeat_margin_ratio{}"]
			if !(latency >= shortest && latency <= longest && margin >= smallest && margin <= largest) {
				t.Errorf("%s: a latency of %v, want %v to %v, and a margin of %v, want %v to %v", when, latency, shortest, longest, margin, smallest, largest)
			}
		}
		none := func(when string) {
			t.Helper()
			got := values(t, registry)
			if latency, margin := got["zklocks_heartbeat_seconds{}"], got["zklocks_heartbeat_margin_ratio{}"]; !math.IsNaN(latency) || !math.IsNaN(margin) {
				t.Errorf("%s: a latency of %v and a margin of %v, want none", when, latency, margin)
			}
		}
		none("before the first")
		hold, err := rwlock.New(conn, "/x").Lock(t.Context())
		must(t, err)
		time.Sleep(2 * timeout) // virtual
		measures("a server that answers at once", 0, 0.001, 0.45, 0.5)
		host.Delay(time.Second) // each way
		time.Sleep(timeout)     // virtual
		host.Delay(0)
		for range 5 {
			time.Sleep(timeout) // virtual
			measures("in the minute after answers that took two seconds", 2, 2.01, 0.01, 0.3)
		}
		time.Sleep(2 * time.Minute) // virtual
		measures("later", 0, 0.001, 0.45, 0.5)
		host.Delay(timeout * 3 / 20) // each way
		time.Sleep(timeout * 3 / 2)  // virtual
		host.Delay(0)
		measures("after answers that came too late", 3, 3.01, -0.5, -0.01)
		_ = hold.Release(t.Context()) // it was lost
		time.Sleep(2 * time.Minute)   // virtual
		none("without holds")
	})
}

// Each hold under a label has an age, also if others come and go, share its node, or end in another
// order than they began. A downgrade begins a new hold.
func TestTheOldestCallAndHoldAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		s := zktest.NewServer(t)
		here := s.Host("a").Connect(t, 10*time.Second, zklocks.WithObserver(metrics.Observer(registry, metrics.PathLabel(path.Dir))))
		lock := func(name string) *rwlock.RWMutex { return rwlock.New(here, "/orders/"+name) }
		hold := func(call func(context.Context) (*zklocks.Hold, error)) *zklocks.Hold {
			h, err := call(t.Context())
			must(t, err)
			return h
		}
		release := func(h *zklocks.Hold) { must(t, h.Release(t.Context())) }
		oldest := func(when, what, kind string, want time.Duration) {
			t.Helper()
			key := "zklocks_oldest_" + what + "_seconds{kind=" + kind + ",path=/orders}"
			if got := values(t, registry)[key]; got < want.Seconds() || got > want.Seconds()+0.1 {
				t.Errorf("%s: %s is %v, want %v", when, key, got, want.Seconds())
			}
		}
		minute := func() { time.Sleep(time.Minute) } // virtual

		one := hold(lock("1").Lock)
		minute()
		for name := range 10 {
			release(hold(lock(fmt.Sprint("x", name)).Lock))
		}
		busy := lock("2")
		two := hold(busy.Lock)
		minute()
		oldest("two hold", "hold", "write", 2*time.Minute)
		oldest("nobody waits", "wait", "write", 0)
		ctx, cancel := context.WithCancel(t.Context())
		gone, granted := make(chan error), make(chan *zklocks.Hold)
		go func() {
			_, err := busy.Lock(ctx)
			gone <- err
		}()
		minute()
		go func() { granted <- hold(lock("1").Lock) }()
		minute()
		oldest("two wait", "wait", "write", 2*time.Minute)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		oldest("one waits", "wait", "write", time.Minute)
		release(one)
		one = <-granted
		oldest("granted", "wait", "write", 0)
		oldest("the first of two has been released", "hold", "write", 3*time.Minute)
		must(t, busy.Downgrade(t.Context(), two))
		oldest("the other was downgraded", "hold", "write", 0)
		minute()
		oldest("and then", "hold", "write", time.Minute)
		oldest("and reads", "hold", "read", time.Minute)
		release(two)
		release(one)
		oldest("all released", "hold", "write", 0)

		shared := lock("3")
		first := hold(shared.RLock)
		minute()
		second := hold(shared.RLock)
		release(first)
		minute()
		oldest("the second of two readers that share a node", "hold", "read", time.Minute)
		release(second)
		oldest("no reader", "hold", "read", 0)
	})
}

// What each event says is counted, under the path's label, also of calls and holds that began
// before the observer came. The sums are those of the histograms.
func TestEventsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := metrics.Observer(registry, metrics.PathLabel(path.Dir))
	lock := observe.LockInfo{Path: "/x/1", Kind: observe.KindWrite}
	o.Released(observe.Released{LockInfo: lock, At: time.Now(), Held: 3 * time.Second})
	o.Failed(observe.Failed{LockInfo: lock, At: time.Now(), Waited: time.Second, Cause: zklocks.ErrBusy})
	checks(t, registry, "unknown ends", map[string]float64{
		"zklocks_waiting{kind=write,path=/x}":      0,
		"zklocks_holding{kind=write,path=/x}":      0,
		"zklocks_leaked_total{kind=write,path=/x}": 0,
		"zklocks_lost_total{kind=write,path=/x}":   0,
	})
	o.Queued(observe.Queued{LockInfo: lock, Ahead: 4})
	o.Granted(observe.Granted{LockInfo: lock, At: time.Now(), Waited: 2 * time.Second, Joined: true})
	o.Leaked(observe.Leaked{LockInfo: lock})
	o.Lost(observe.Lost{LockInfo: lock, At: time.Now(), Held: 4 * time.Second})
	for _, p := range []string{"/x/1", "/x/2"} {
		o.Called(observe.Called{LockInfo: observe.LockInfo{Path: p, Kind: observe.KindWrite}})
		o.Retried(observe.Retried{Path: p, Op: "list"})
	}
	checks(t, registry, "a hold", map[string]float64{
		"zklocks_leaked_total{kind=write,path=/x}":            1,
		"zklocks_lost_total{kind=write,path=/x}":              1,
		"zklocks_wait_seconds{joined=yes,kind=write,path=/x}": 1,
		"zklocks_waiting{kind=write,path=/x}":                 2,
		"zklocks_retries_total{op=list,path=/x}":              2,
	})
	for range 2 { // both began at the same instant
		o.Failed(observe.Failed{LockInfo: lock, Cause: zklocks.ErrBusy})
	}
	checks(t, registry, "ended", map[string]float64{"zklocks_waiting{kind=write,path=/x}": 0})
	families, err := registry.Gather()
	must(t, err)
	sums := map[string]float64{}
	for _, f := range families {
		sums[f.GetName()] = f.GetMetric()[0].GetHistogram().GetSampleSum()
	}
	if sums["zklocks_ahead"] != 4 || sums["zklocks_wait_seconds"] != 2 || sums["zklocks_hold_seconds"] != 7 {
		t.Errorf("sums %v", sums)
	}
}

func TestReasons(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := metrics.Observer(registry)
	metrics.Heartbeats(registry, new(zklocks.Conn))
	lock := observe.LockInfo{Path: "/x", Kind: observe.KindWrite}
	for cause, reason := range map[error]string{
		zklocks.ErrBusy: "busy", zklocks.ErrLost: "lost", zk.ErrClosing: "closed", zk.ErrNoAuth: "denied",
		fmt.Errorf("%w: %w", context.Canceled, zklocks.ErrNoAnswer): "no_answer", errors.Join(context.DeadlineExceeded, zklocks.ErrNoAnswer): "no_answer",
		context.DeadlineExceeded: "timeout", context.Canceled: "canceled", errors.New("?"): "other",
	} {
		key := "zklocks_failed_total{kind=write,path=/x,reason=" + reason + "}"
		before := values(t, registry)[key]
		o.Failed(observe.Failed{LockInfo: lock, Cause: cause})
		checks(t, registry, cause.Error(), map[string]float64{key: before + 1})
	}
}

// documented returns the existing metrics and their labels.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics.Heartbeats(registry, new(zklocks.Conn))
	o := metrics.Observer(registry)
	lock := observe.LockInfo{Path: "/x", Kind: observe.KindWrite}
	o.Called(observe.Called{LockInfo: lock})
	o.Queued(observe.Queued{LockInfo: lock})
	o.Granted(observe.Granted{LockInfo: lock})
	o.Released(observe.Released{LockInfo: lock})
	o.Leaked(observe.Leaked{LockInfo: lock})
	o.Retried(observe.Retried{Path: "/x", Op: "list"})
	all := make(map[string][]string)
	for key := range values(t, registry) {
		name, labels, _ := strings.Cut(strings.TrimSuffix(key, "}"), "{")
		all[name] = nil
		for _, label := range strings.Split(labels, ",") {
			label, _, _ = strings.Cut(label, "=")
			all[name] = append(all[name], label)
		}
	}
	return all
}

var (
	metric = regexp.MustCompile(`zklocks_\w+`)
	by     = regexp.MustCompile(`by \(([^)]*)\)`)
	chosen = regexp.MustCompile(`(\w+)=~?"`)
)

// asks asserts that all metrics and labels in an expression exist.
func asks(t *testing.T, where, expr string) {
	t.Helper()
	all := documented(t)
	var labels []string
	for _, name := range metric.FindAllString(expr, -1) {
		base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		if histogram := slices.Contains([]string{"zklocks_wait_seconds", "zklocks_hold_seconds", "zklocks_ahead"}, base); all[base] == nil || histogram == (name == base) {
			t.Errorf("%s asks for %s, which does not exist", where, name)
		}
		labels = append(labels, all[base]...)
	}
	if len(labels) == 0 {
		t.Errorf("%s asks for no metric of this module: %s", where, expr)
	}
	for _, list := range by.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(list[1], ", ") {
			if label != "le" && !slices.Contains(labels, label) {
				t.Errorf("%s: no label is called %q: %s", where, label, expr)
			}
		}
	}
	for _, label := range chosen.FindAllStringSubmatch(expr, -1) {
		if !slices.Contains(labels, label[1]) {
			t.Errorf("%s: no label is called %q: %s", where, label[1], expr)
		}
	}
}

func TestTheAlertsAskForWhatIsCounted(t *testing.T) {
	text, err := os.ReadFile("alerts.yml")
	must(t, err)
	alerts := strings.Split(string(text), "- alert: ")[1:]
	if len(alerts) < 5 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, alert := range alerts {
		name, rest, _ := strings.Cut(alert, "\n")
		_, expr, there := strings.Cut(rest, "expr: ")
		expr, _, ends := strings.Cut(expr, "labels: {severity: ")
		if !there || !ends || !strings.Contains(rest, "summary: ") {
			t.Errorf("%s: without an expression, a severity or a summary", name)
		}
		asks(t, name, expr)
	}
}

func TestTheDashboardQueriesExistingMetrics(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	must(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(text, &dashboard))
	if len(dashboard.Panels) < 5 {
		t.Fatalf("%d panels", len(dashboard.Panels))
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asks(t, panel.Title, target.Expr)
		}
	}
}

// README.md names each metric with its labels.
func TestTheDocumentHasEachMetric(t *testing.T) {
	text, err := os.ReadFile("README.md")
	must(t, err)
	for name, labels := range documented(t) {
		row := regexp.MustCompile("\\| `" + name + "` \\| (?:gauge|counter|histogram) \\| ([^|]*) \\|").FindStringSubmatch(string(text))
		if row == nil {
			t.Errorf("README.md does not name %s", name)
			continue
		}
		shown := strings.Split(row[1], ", ")
		slices.Sort(shown)
		slices.Sort(labels)
		if labels = slices.Compact(labels); !slices.Equal(shown, labels) {
			t.Errorf("README.md shows %s with the labels %v, want %v", name, shown, labels)
		}
	}
}
