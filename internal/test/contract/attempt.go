package contract

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
)

// soon is longer than any step takes on a busy machine, unless the step hangs.
const soon = 20 * time.Second

// Attempt is one call that may wait, on a goroutine of its own.
type Attempt[H any] struct {
	Cancel context.CancelFunc
	Done   chan struct{} // closed when the call has returned; then the fields below are set
	Hold   H
	Err    error
	At     time.Time // when the call returned

	Began time.Time
	tb    testing.TB
	stage stage          // nil if tb is not a Stage
	over  chan time.Time // when a goroutine that only waits for its context woke up
}

// stage has the methods of a Stage that an Attempt needs.
type stage interface {
	Virtual() bool
	Settle()
}

type attempt = Attempt[*zklocks.Hold]

// Begin begins a call. If tb is a Stage in memory, the assertions are as sharp as they can be
// there.
func Begin[H any](tb testing.TB, ctx context.Context, call func(context.Context) (H, error)) *Attempt[H] {
	ctx, cancel := context.WithCancel(ctx)
	a := &Attempt[H]{
		Cancel: cancel, Done: make(chan struct{}), Began: time.Now(), tb: tb, over: make(chan time.Time, 1),
	}
	a.stage, _ = tb.(stage)
	go func() {
		<-ctx.Done()
		a.over <- time.Now()
	}()
	go func() {
		defer cancel()
		a.Hold, a.Err = call(ctx)
		a.At = time.Now()
		close(a.Done)
	}()
	return a
}

// Ended waits until the call has returned.
func (a *Attempt[H]) Ended() {
	a.tb.Helper()
	test.Within(a.tb, soon, "the call returns", func() { <-a.Done })
}

// Granted waits until the call has succeeded.
func (a *Attempt[H]) Granted() H {
	a.tb.Helper()
	a.Ended()
	if a.Err != nil {
		a.tb.Fatal(a.Err)
	}
	return a.Hold
}

// Failed waits until the call has failed.
func (a *Attempt[H]) Failed() error {
	a.tb.Helper()
	a.Ended()
	if a.Err == nil {
		a.tb.Fatal("granted")
	}
	if h := reflect.ValueOf(a.Hold); h.IsValid() && !h.IsZero() {
		a.tb.Error("an error and a hold")
	}
	return a.Err
}

// Waits asserts that the call has not returned. In memory it also asserts that the call will not
// return before time passes or the test does something.
func (a *Attempt[H]) Waits() {
	a.tb.Helper()
	if a.stage != nil {
		a.stage.Settle()
	}
	select {
	case <-a.Done:
		a.tb.Fatalf("the call did not wait: %v", a.Err)
	default:
	}
}

// Stop cancels the call, which must then return at once.
func (a *Attempt[H]) Stop() {
	a.tb.Helper()
	a.Cancel()
	a.Ended()
	if a.Err == nil {
		return // the grant came first
	}
	if !errors.Is(a.Err, context.Canceled) {
		a.tb.Errorf("error %v after the cancellation", a.Err)
	}
	a.Prompt()
}

// Prompt asserts that the call returned at once when its context ended. In memory that is exact. On
// a real server it only shows that the call does not hang, because goroutines that wake up at the
// same instant have been seen 139ms apart on a busy machine.
func (a *Attempt[H]) Prompt() {
	a.tb.Helper()
	most := soon
	if a.stage != nil && a.stage.Virtual() {
		most = 0
	}
	if late := a.At.Sub(<-a.over); late > most {
		a.tb.Errorf("returned %v after the end of its context, more than %v", late, most)
	}
}
