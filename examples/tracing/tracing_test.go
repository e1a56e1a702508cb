package tracing_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/tracing"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// The spans of a wait that was granted and of a wait that was given up begin and end with the wait,
// and are children of the request's span.
func TestAWaitIsAChildOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("test")
		conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second, zklocks.WithObserver(tracing.Waits(tracer)))
		lock := rwlock.New(conn, "/accounts/7")

		ctx, request := tracer.Start(t.Context(), "request")
		held, err := lock.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = zklocks.Within(3*time.Second, lock.Lock)(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		request.End()

		spans := recorder.Ended()
		if len(spans) != 3 {
			t.Fatalf("%d spans, want those of two waits and of the request", len(spans))
		}
		for i, want := range []struct {
			waited time.Duration
			status codes.Code
		}{{0, codes.Unset}, {3 * time.Second, codes.Error}} {
			span := spans[i]
			if span.Name() != "wait for /accounts/7" || span.Parent().SpanID() != request.SpanContext().SpanID() {
				t.Errorf("span %q of parent %v, and the request is %v", span.Name(), span.Parent().SpanID(), request.SpanContext().SpanID())
			}
			if span.Status().Code != want.status {
				t.Errorf("a wait ended with %v, want %v", span.Status(), want.status)
			}
			if took := span.EndTime().Sub(span.StartTime()); took < want.waited || took > want.waited+100*time.Millisecond {
				t.Errorf("the span took %v, and the wait %v", took, want.waited)
			}
			if ended := span.EndTime(); ended.After(spans[2].EndTime()) || span.StartTime().Before(spans[2].StartTime()) {
				t.Errorf("the wait, until %v, is not within the request, until %v", ended, spans[2].EndTime())
			}
		}
	})
}

func TestThePageShowsThisCode(t *testing.T) {
	code, err := os.ReadFile("tracing.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/how-to/monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(code), "package tracing\n\n")
	if shown == "" || !strings.Contains(string(page), "```go\n"+shown+"```\n") {
		t.Error("docs/how-to/monitor.md does not show what tracing.go has below its package clause")
	}
}
