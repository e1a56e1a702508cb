// Package tracing records what happens to locks as OpenTelemetry spans. Copy it.
package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/observe"
)

// Waits records a span for each wait for a lock, as a child of the caller's span.
func Waits(tracer trace.Tracer) observe.Observer {
	record := func(ctx context.Context, lock observe.LockInfo, end time.Time, waited time.Duration, failed error) {
		_, span := tracer.Start(ctx, "wait for "+lock.Path, trace.WithTimestamp(end.Add(-waited)))
		span.SetAttributes(attribute.Bool("granted", failed == nil))
		expected := errors.Is(failed, zklocks.ErrBusy) || errors.Is(failed, context.Canceled) // of a Try, or the caller has left
		if failed != nil && !expected {
			span.SetStatus(codes.Error, failed.Error())
		}
		span.End(trace.WithTimestamp(end))
	}
	return observe.Observer{
		Granted: func(e observe.Granted) { record(e.Context, e.LockInfo, e.At, e.Waited, nil) },
		Failed:  func(e observe.Failed) { record(e.Context, e.LockInfo, e.At, e.Waited, e.Cause) },
	}
}
