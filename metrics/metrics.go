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
	"sync"

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
// the session timeout is left when they are answered. A program with several connections must give
// each its own labels, by prometheus.WrapRegistererWith. Heartbeats panics if the registry already
// has these metrics.
func Heartbeats(registry prometheus.Registerer, conn *zklocks.Conn) {
	make := promauto.With(registry)
	make.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "zklocks_heartbeat_seconds",
		Help: "How long the last heartbeat took until its answer was read.",
	}, func() float64 {
		latency, _ := conn.Heartbeat()
		return latency.Seconds()
	})
	make.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "zklocks_heartbeat_margin_ratio",
		Help: "How much of the session timeout was left when the last heartbeat was answered, before the holds would have been lost.",
	}, func() float64 {
		_, margin := conn.Heartbeat()
		return margin.Seconds() / conn.SessionTimeout().Seconds()
	})
}

type observer struct {
	label func(path string) string

	waiting, holding  *prometheus.GaugeVec
	wait, hold, ahead *prometheus.HistogramVec
	failed, lost      *prometheus.CounterVec
	leaked, sent      *prometheus.CounterVec

	known sync.Map // the pairs of path and kind whose counters exist
}

// Observer registers the metrics and returns the observer that feeds them. One observer serves all
// locks of a process. Observer panics if the registry already has these metrics.
func Observer(registry prometheus.Registerer, opts ...Option) observe.Observer {
	make, lock := promauto.With(registry), []string{"path", "kind"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return make.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, lock)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return make.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return make.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	o := &observer{
		label:   func(path string) string { return path },
		waiting: gauge("zklocks_waiting", "Calls that wait for a lock."),
		holding: gauge("zklocks_holding", "Holds."),
		wait:    histogram("zklocks_wait_seconds", "From the call to the hold.", seconds, "path", "kind", "joined"),
		hold:    histogram("zklocks_hold_seconds", "From the begin of the hold to its release or loss.", seconds, lock...),
		ahead:   histogram("zklocks_ahead", "How many nodes had to be deleted before the turn of a node that had to wait.", nodes, lock...),
		failed:  counter("zklocks_failed_total", "Calls that failed.", "path", "kind", "reason"),
		lost:    counter("zklocks_lost_total", "Holds that were lost.", lock...),
		leaked:  counter("zklocks_leaked_total", "Holds that the program has dropped without releasing them.", lock...),
		sent:    counter("zklocks_retries_total", "Requests that were sent again.", "path", "op"),
	}
	for _, opt := range opts {
		opt(o)
	}
	return observe.Observer{
		Called: func(e observe.Called) {
			path, kind := o.labels(e.LockInfo)
			o.waiting.WithLabelValues(path, kind).Inc()
		},
		Queued: func(e observe.Queued) {
			path, kind := o.labels(e.LockInfo)
			o.ahead.WithLabelValues(path, kind).Observe(float64(e.Ahead))
		},
		Granted: func(e observe.Granted) {
			path, kind := o.labels(e.LockInfo)
			o.waiting.WithLabelValues(path, kind).Dec()
			o.holding.WithLabelValues(path, kind).Inc()
			joined := "no"
			if e.Joined {
				joined = "yes"
			}
			o.wait.WithLabelValues(path, kind, joined).Observe(e.Waited.Seconds())
		},
		Failed: func(e observe.Failed) {
			path, kind := o.labels(e.LockInfo)
			o.waiting.WithLabelValues(path, kind).Dec()
			o.failed.WithLabelValues(path, kind, reason(e.Cause)).Inc()
		},
		Released: func(e observe.Released) {
			path, kind := o.labels(e.LockInfo)
			o.holding.WithLabelValues(path, kind).Dec()
			o.hold.WithLabelValues(path, kind).Observe(e.Held.Seconds())
		},
		Lost: func(e observe.Lost) {
			path, kind := o.labels(e.LockInfo)
			o.holding.WithLabelValues(path, kind).Dec()
			o.hold.WithLabelValues(path, kind).Observe(e.Held.Seconds())
			o.lost.WithLabelValues(path, kind).Inc()
		},
		Leaked: func(e observe.Leaked) {
			path, kind := o.labels(e.LockInfo)
			o.leaked.WithLabelValues(path, kind).Inc()
		},
		Retried: func(e observe.Retried) { o.sent.WithLabelValues(o.label(e.Path), e.Op).Inc() },
	}
}

// labels returns the labels of a lock. The first call for a lock creates its counters of failures
// and losses: a counter that begins with 1 has not increased, so a first loss would raise no alert.
func (o *observer) labels(l observe.LockInfo) (path, kind string) {
	path, kind = o.label(l.Path), string(l.Kind)
	if _, known := o.known.LoadOrStore([2]string{path, kind}, nil); !known {
		o.lost.WithLabelValues(path, kind)
		o.leaked.WithLabelValues(path, kind)
		for _, r := range reasons {
			o.failed.WithLabelValues(path, kind, r.name)
		}
	}
	return path, kind
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
