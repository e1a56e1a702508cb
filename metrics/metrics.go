// Package metrics counts what happens to locks, for Prometheus.
//
//	conn, err := zklocks.Connect(ctx, servers, timeout,
//		zklocks.WithObserver(metrics.Observer(prometheus.DefaultRegisterer)))
//
// Every lock on the connection is then counted. README.md lists the metrics. alerts.yml has rules
// for alerts, dashboard.json is a dashboard for Grafana.
package metrics

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/observe"
)

// Buckets of the histograms, in seconds and in nodes.
var (
	seconds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200}
	nodes   = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// An Option changes a default of [Observer].
type Option func(*observer)

// PathLabel sets the function that returns the value of the label "path" for the path of a lock. A
// program with a lock for each of many things, such as /orders/4711, should count them together:
// metrics.PathLabel(path.Dir). The default is the path itself.
func PathLabel(label func(path string) string) Option {
	return func(o *observer) { o.label = label }
}

// Heartbeats registers two metrics of a connection: the latency of its heartbeats, and how much of
// the session timeout is left when they are answered, both the worst of the last minute. Without
// heartbeats, which a connection sends while it has holds or waiters, both are NaN. A program with
// several connections must give each its own labels, by prometheus.WrapRegistererWith. Heartbeats
// panics if the registry already has these metrics.
func Heartbeats(registry prometheus.Registerer, conn *zklocks.Conn) {
	make := promauto.With(registry)
	make.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "zklocks_heartbeat_seconds",
		Help: "The longest time from a heartbeat to its answer, in the last minute.",
	}, func() float64 {
		latency, _ := conn.Heartbeat()
		return ratio(latency, time.Second)
	})
	make.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "zklocks_heartbeat_margin_ratio",
		Help: "The smallest part of the session timeout that was left when a heartbeat was answered, before the holds would have been lost, in the last minute.",
	}, func() float64 {
		_, margin := conn.Heartbeat()
		return ratio(margin, conn.SessionTimeout())
	})
}

// ratio returns d/unit; NaN for 0, which means that there was no heartbeat.
func ratio(d, unit time.Duration) float64 {
	if d == 0 {
		return math.NaN()
	}
	return d.Seconds() / unit.Seconds()
}

type observer struct {
	label func(path string) string
	start time.Time // the instants in pending count from it

	wait, hold, ahead *prometheus.HistogramVec
	failed, lost      *prometheus.CounterVec
	leaked, sent      *prometheus.CounterVec

	mu    sync.RWMutex
	locks map[labels]*locks // guarded by mu
}

// labels are the values of the labels "path" and "kind".
type labels struct{ path, kind string }

// locks has the calls and the holds under one pair of labels that have not ended.
type locks struct{ waiting, holding pending }

// gauges shows locks. They are collected at each scrape, because the oldest call ages in between.
var gauges = struct{ waiting, oldestWait, holding, oldestHold *prometheus.Desc }{
	describe("zklocks_waiting", "Calls that wait for a lock."),
	describe("zklocks_oldest_wait_seconds", "How long the oldest call that waits has waited; 0 if none waits."),
	describe("zklocks_holding", "Holds."),
	describe("zklocks_oldest_hold_seconds", "How old the oldest hold is; 0 if there is none."),
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"path", "kind"}, nil)
}

// Observer registers the metrics and returns the observer that feeds them. One observer serves all
// locks of a process. Observer panics if the registry already has these metrics.
func Observer(registry prometheus.Registerer, opts ...Option) observe.Observer {
	make, lock := promauto.With(registry), []string{"path", "kind"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return make.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return make.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	o := &observer{
		label:  func(path string) string { return path },
		start:  time.Now(),
		wait:   histogram("zklocks_wait_seconds", "From the call to the hold.", seconds, "path", "kind", "joined"),
		hold:   histogram("zklocks_hold_seconds", "From the begin of the hold to its release or loss.", seconds, lock...),
		ahead:  histogram("zklocks_ahead", "How many nodes had to be deleted before the turn of a node that had to wait.", nodes, lock...),
		failed: counter("zklocks_failed_total", "Calls that failed.", "path", "kind", "reason"),
		lost:   counter("zklocks_lost_total", "Holds that were lost.", lock...),
		leaked: counter("zklocks_leaked_total", "Holds that the program has dropped without releasing them.", lock...),
		sent:   counter("zklocks_retries_total", "Requests that were sent again.", "path", "op"),
		locks:  map[labels]*locks{},
	}
	for _, opt := range opts {
		opt(o)
	}
	registry.MustRegister(o)
	return observe.Observer{
		Called: func(e observe.Called) {
			_, of := o.of(e.LockInfo)
			of.waiting.begin(e.At.Sub(o.start))
		},
		Queued: func(e observe.Queued) {
			l, _ := o.of(e.LockInfo)
			o.ahead.WithLabelValues(l.path, l.kind).Observe(float64(e.Ahead))
		},
		Granted: func(e observe.Granted) {
			l, of := o.of(e.LockInfo)
			of.waiting.end(e.At.Add(-e.Waited).Sub(o.start))
			of.holding.begin(e.At.Sub(o.start))
			joined := "no"
			if e.Joined {
				joined = "yes"
			}
			o.wait.WithLabelValues(l.path, l.kind, joined).Observe(e.Waited.Seconds())
		},
		Failed: func(e observe.Failed) {
			l, of := o.of(e.LockInfo)
			of.waiting.end(e.At.Add(-e.Waited).Sub(o.start))
			o.failed.WithLabelValues(l.path, l.kind, reason(e.Cause)).Inc()
		},
		Released: func(e observe.Released) { o.ended(e.LockInfo, e.At, e.Held) },
		Lost: func(e observe.Lost) {
			l := o.ended(e.LockInfo, e.At, e.Held)
			o.lost.WithLabelValues(l.path, l.kind).Inc()
		},
		Leaked: func(e observe.Leaked) {
			l, _ := o.of(e.LockInfo)
			o.leaked.WithLabelValues(l.path, l.kind).Inc()
		},
		Retried: func(e observe.Retried) { o.sent.WithLabelValues(o.label(e.Path), e.Op).Inc() },
	}
}

// ended counts a hold that has ended.
func (o *observer) ended(lock observe.LockInfo, at time.Time, held time.Duration) labels {
	l, of := o.of(lock)
	of.holding.end(at.Add(-held).Sub(o.start))
	o.hold.WithLabelValues(l.path, l.kind).Observe(held.Seconds())
	return l
}

// of returns the labels of a lock, and the locks that share them. The first call for a pair of
// labels creates its counters of failures and losses: a counter that begins with 1 has not
// increased, so a first loss would raise no alert.
func (o *observer) of(lock observe.LockInfo) (labels, *locks) {
	l := labels{o.label(lock.Path), string(lock.Kind)}
	o.mu.RLock()
	of := o.locks[l]
	o.mu.RUnlock()
	if of != nil {
		return l, of
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if of = o.locks[l]; of == nil {
		of = new(locks)
		o.locks[l] = of
		o.lost.WithLabelValues(l.path, l.kind)
		o.leaked.WithLabelValues(l.path, l.kind)
		for _, r := range reasons {
			o.failed.WithLabelValues(l.path, l.kind, r.name)
		}
	}
	return l, of
}

func (o *observer) Describe(to chan<- *prometheus.Desc) {
	to <- gauges.waiting
	to <- gauges.oldestWait
	to <- gauges.holding
	to <- gauges.oldestHold
}

func (o *observer) Collect(to chan<- prometheus.Metric) {
	o.mu.RLock()
	all := maps.Clone(o.locks)
	o.mu.RUnlock()
	for l, of := range all {
		show := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, l.path, l.kind)
		}
		waiting, oldest := of.waiting.now(time.Since(o.start))
		show(gauges.waiting, float64(waiting))
		show(gauges.oldestWait, oldest.Seconds())
		holding, oldest := of.holding.now(time.Since(o.start))
		show(gauges.holding, float64(holding))
		show(gauges.oldestHold, oldest.Seconds())
	}
}

// pending has when each of the calls, or of the holds, that have not ended began.
type pending struct {
	mu    sync.Mutex
	count int
	began map[time.Duration]int // how many began at that time; mu guards it and count
}

func (p *pending) begin(at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began == nil {
		p.began = map[time.Duration]int{}
	}
	p.count++
	p.began[at]++
}

func (p *pending) end(began time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.began[began] {
	case 0: // it began before the observer saw the lock
		return
	case 1:
		delete(p.began, began)
	default:
		p.began[began]--
	}
	p.count--
}

// now returns how many there are, and the age of the oldest.
func (p *pending) now(now time.Duration) (count int, oldest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for began := range p.began {
		oldest = max(oldest, now-began)
	}
	return p.count, oldest
}

// reasons are the values of the label "reason". The first reason that the error matches applies.
var reasons = []struct {
	name  string
	cause error
}{
	{"busy", zklocks.ErrBusy},
	{"lost", zklocks.ErrLost},
	{"closed", zk.ErrClosing},
	{"denied", zk.ErrNoAuth},
	{"no_answer", zklocks.ErrNoAnswer},
	{"timeout", context.DeadlineExceeded},
	{"canceled", context.Canceled},
	{"other", nil},
}

func reason(err error) string {
	for _, r := range reasons[:len(reasons)-1] {
		if errors.Is(err, r.cause) {
			return r.name
		}
	}
	return "other"
}
