package lockmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zklocks/zklocks/observe"
)

// Prometheus registers the metrics and returns the observer that feeds them. One serves all locks
// of a process.
func Prometheus(registry prometheus.Registerer) observe.Observer {
	gauge := func(d description) func(int, ...string) {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labels)
		registry.MustRegister(g)
		return func(n int, labels ...string) { g.WithLabelValues(labels...).Add(float64(n)) }
	}
	counter := func(d description) func(...string) {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
		registry.MustRegister(c)
		return func(labels ...string) { c.WithLabelValues(labels...).Inc() }
	}
	histogram := func(d description, buckets []float64) func(float64, ...string) {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets}, d.labels)
		registry.MustRegister(h)
		return func(v float64, labels ...string) { h.WithLabelValues(labels...).Observe(v) }
	}
	return instruments{
		waiting: gauge(waiting), holding: gauge(holding),
		ahead: histogram(ahead, nodes), wait: histogram(wait, seconds), hold: histogram(hold, seconds),
		failed: counter(failed), lost: counter(lost), retry: counter(retries),
	}.observer()
}
