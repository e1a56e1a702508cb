package wire

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A disk that hangs costs a new session 100 ms, and the writes keep their order.
func TestASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(sessionFile)
		hangs := make(chan struct{})
		var written []int
		start := time.Now()
		err := f.do(func() error { <-hangs; written = append(written, 1); return nil })
		if took := time.Since(start); err == nil || took != diskLimit {
			t.Errorf("%v after %v", err, took)
		}
		time.AfterFunc(50*time.Millisecond, func() { close(hangs) })
		failure := errors.New("no space left")
		if err := f.do(func() error { written = append(written, 2); return failure }); err != failure {
			t.Error(err)
		}
		if !slices.Equal(written, []int{1, 2}) {
			t.Errorf("written in the order %v", written)
		}
	})
}
