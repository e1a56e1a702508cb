package lockmetrics

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zklocks/zklocks/observe"
)

// OpenTelemetry makes the same metrics, and returns the observer that feeds them.
func OpenTelemetry(meter metric.Meter) (observe.Observer, error) {
	var errs []error
	with := func(d description, values []string) metric.MeasurementOption {
		set := make([]attribute.KeyValue, len(values))
		for i, v := range values {
			set[i] = attribute.String(d.labels[i], v)
		}
		return metric.WithAttributes(set...)
	}
	gauge := func(d description) func(int, ...string) {
		g, err := meter.Int64UpDownCounter(d.name, metric.WithDescription(d.help))
		errs = append(errs, err)
		return func(n int, labels ...string) { g.Add(context.Background(), int64(n), with(d, labels)) }
	}
	counter := func(d description) func(...string) {
		c, err := meter.Int64Counter(d.name, metric.WithDescription(d.help))
		errs = append(errs, err)
		return func(labels ...string) { c.Add(context.Background(), 1, with(d, labels)) }
	}
	histogram := func(d description, borders []float64) func(float64, ...string) {
		h, err := meter.Float64Histogram(d.name, metric.WithDescription(d.help), metric.WithExplicitBucketBoundaries(borders...))
		errs = append(errs, err)
		return func(v float64, labels ...string) { h.Record(context.Background(), v, with(d, labels)) }
	}
	i := instruments{
		waiting: gauge(waiting), holding: gauge(holding),
		ahead: histogram(ahead, nodes), wait: histogram(wait, seconds), hold: histogram(hold, seconds),
		failed: counter(failed), lost: counter(lost), retry: counter(retries),
	}
	return i.observer(), errors.Join(errs...)
}
