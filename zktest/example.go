package zktest

import (
	"context"
	"fmt"
	"log"
	"slices"
	"testing"
)

// ForExample returns a t for an Example, which has none, and a function that ends it: like the end
// of a test, it closes what was made with t. A call that would fail or skip a test panics.
func ForExample() (t testing.TB, end func()) {
	e := new(example)
	return e, e.end
}

type example struct {
	testing.TB // nil: only the methods below are used
	cleanups   []func()
}

func (*example) Helper()                           {}
func (*example) Name() string                      { return "Example" }
func (*example) Context() context.Context          { return context.Background() }
func (*example) Logf(format string, args ...any)   { log.Printf(format, args...) }
func (*example) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*example) Skipf(format string, args ...any)  { panic(fmt.Sprintf(format, args...)) }
func (*example) Error(args ...any)                 { panic(fmt.Sprint(args...)) }
func (*example) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (e *example) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }

func (e *example) end() {
	for len(e.cleanups) > 0 {
		last := len(e.cleanups) - 1
		f := e.cleanups[last]
		e.cleanups = slices.Delete(e.cleanups, last, last+1)
		f()
	}
}
