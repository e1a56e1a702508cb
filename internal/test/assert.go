package test

import (
	"strings"
	"testing"
	"time"
)

const emptyTimeout = 10 * time.Second

// AssertEmpty waits until dir has no children or does not exist; after 10 seconds it fails and
// shows the children.
func AssertEmpty(tb testing.TB, conn Lister, dir string) {
	tb.Helper()
	var left []string
	if !Poll(emptyTimeout, func() bool {
		left = Children(tb, conn, dir)
		return len(left) == 0
	}) {
		tb.Errorf("%s still has %d children after %v:\n\t%s", dir, len(left), limit(emptyTimeout), strings.Join(left, "\n\t"))
	}
}

// Eventually waits for cond like Poll, and fails the test if cond does not become true.
func Eventually(tb testing.TB, within time.Duration, what string, cond func() bool) {
	tb.Helper()
	if !Poll(within, cond) {
		tb.Fatalf("not within %v: %s", limit(within), what)
	}
}

// Within fails the test if f takes longer than d; in real time, longer than a minute if d is
// shorter. It does not wait for an f that hangs: the goroutine remains visible in a stack dump.
func Within(tb testing.TB, d time.Duration, what string, f func()) {
	tb.Helper()
	d = limit(d)
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done) // also if f calls tb.FailNow
		f()
	}()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
		if took := time.Since(began); took > d {
			tb.Errorf("%s took %v, more than %v", what, took, d)
		}
	case <-late.C:
		tb.Fatalf("%s: not done after %v", what, d)
	}
}
