package test

import (
	"testing"
	"testing/synctest"
	"time"
)

// In a bubble, which is found in the stacks' text, limits are exact and other goroutines are not
// counted.
func TestABubbleIsFound(t *testing.T) {
	if d := limit(time.Second); d != patience {
		t.Errorf("in real time: %v", d)
	}
	outside := make(chan struct{})
	defer close(outside)
	for range 10 {
		go func() { <-outside }()
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if Poll(time.Second, func() bool { return false }) || time.Since(began) > time.Second+20*time.Millisecond {
			t.Errorf("it ends after %v", time.Since(began))
		}
		inside := make(chan struct{})
		before := Goroutines()
		go func() { <-inside }()
		if n := Goroutines(); n != before+1 || n > 10 {
			t.Errorf("%d goroutines, and %d before there was one more", n, before)
		}
		close(inside)
	})
}
