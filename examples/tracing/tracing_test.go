package tracing_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/tracing"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// The spans of waits begin and end with the wait, and are children of the request's span. A lock
// that is busy, and a caller that leaves, are no errors.
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
		if _, err := lock.TryLock(ctx); !errors.Is(err, zklocks.ErrBusy) {
			t.Fatal(err)
		}
		leaving, leave := context.WithCancel(ctx)
		time.AfterFunc(time.Second, leave)
		if _, err := lock.Lock(leaving); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		request.End()

		spans := recorder.Ended()
		if len(spans) != 5 {
			t.Fatalf("%d spans, want those of four waits and of the request", len(spans))
		}
		for i, want := range []struct {
			waited time.Duration
			status codes.Code
		}{{0, codes.Unset}, {3 * time.Second, codes.Error}, {0, codes.Unset}, {time.Second, codes.Unset}} {
			span := spans[i]
			if span.Name() != "wait for /accounts/7" || span.Parent().SpanID() != request.SpanContext().SpanID() {
				t.Errorf("span %q of parent %v, and the request is %v", span.Name(), span.Parent().SpanID(), request.SpanContext().SpanID())
			}
			if granted := attribute.Bool("granted", i == 0); !slices.Contains(span.Attributes(), granted) {
				t.Errorf("%v does not have %v", span.Attributes(), granted)
			}
			if span.Status().Code != want.status {
				t.Errorf("a wait ended with %v, want %v", span.Status(), want.status)
			}
			if took := span.EndTime().Sub(span.StartTime()); took < want.waited || took > want.waited+100*time.Millisecond {
				t.Errorf("the span took %v, and the wait %v", took, want.waited)
			}
			if ended := span.EndTime(); ended.After(spans[4].EndTime()) || span.StartTime().Before(spans[4].StartTime()) {
				t.Errorf("the wait, until %v, is not within the request, until %v", ended, spans[4].EndTime())
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
