package test

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestGoroutinesOfABubbleAreCountedAlone(t *testing.T) {
	stop := make(chan struct{})
	var outside sync.WaitGroup
	defer outside.Wait()
	defer close(stop)
	start := Goroutines()
	for range 10 {
		outside.Go(func() { <-stop })
	}
	if n := Goroutines(); n < start+10 {
		t.Errorf("outside of a bubble: %d, and %d before there were 10 more", n, start)
	}
	synctest.Test(t, func(t *testing.T) {
		before := Goroutines()
		end := make(chan struct{})
		for range 5 {
			go func() { <-end }()
		}
		if n := Goroutines(); n != before+5 {
			t.Errorf("%d, and %d before there were 5 more", n, before)
		}
		close(end)
		synctest.Wait()
		if n := Goroutines(); n != before {
			t.Errorf("%d, and %d before", n, before)
		}
	})
}
