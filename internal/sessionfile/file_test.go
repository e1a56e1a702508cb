package sessionfile

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A disk that hangs costs a new session 100 ms, and the writes keep their order.
func TestASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(File)
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

// A file that somebody has is asked for soon, and not often.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start, asked := time.Now(), []time.Duration{}
		ask := func() error { asked = append(asked, time.Since(start)); return ErrInUse }
		if err := poll(ctx, ask); err != ErrInUse || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if n := len(asked); n < 500 || n > 610 || asked[1] != time.Millisecond {
			t.Errorf("asked %d times in a minute, first at %v", n, asked[:2])
		}
		for i := 1; i < len(asked); i++ {
			if pause := asked[i] - asked[i-1]; pause < 100*time.Millisecond && asked[i] > 250*time.Millisecond {
				t.Fatalf("asked again after %v, at %v", pause, asked[i])
			}
		}
		failure := errors.New("no such device")
		if err := poll(ctx, func() error { return failure }); err != failure {
			t.Error(err)
		}
	})
}
