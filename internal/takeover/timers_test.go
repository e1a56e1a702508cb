package takeover

import (
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest/history"
)

// The promises hold as long as the process is scheduled. This measures whether it
// was: how late its own timers are. What is promised to come in time may come
// later by as much as the process stood, and no more.
var timers struct {
	mu       sync.Mutex
	watchers int
	last     int64 // when one fired
	lates    []lateness
}

type lateness struct {
	at int64
	by time.Duration
}

const timerEvery = 10 * time.Millisecond

// watchTimers measures while a test runs.
func watchTimers(t *testing.T) {
	timers.mu.Lock()
	if timers.watchers++; timers.watchers == 1 {
		timers.last = history.Now()
	}
	timers.mu.Unlock()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(timerEvery)
		defer timer.Stop()
		for {
			fired()
			select {
			case <-done:
				return
			case <-timer.C:
				timer.Reset(timerEvery)
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
		timers.mu.Lock()
		defer timers.mu.Unlock()
		timers.watchers--
	})
}

func fired() {
	timers.mu.Lock()
	defer timers.mu.Unlock()
	now := history.Now()
	if by := time.Duration(now-timers.last) - timerEvery; by > 0 {
		timers.lates = append(timers.lates, lateness{now, by})
	}
	timers.last = now
}

// stood is for how long the process has not run since then, all in all.
func stood(since int64) (all time.Duration) {
	timers.mu.Lock()
	defer timers.mu.Unlock()
	all = max(0, time.Duration(history.Now()-timers.last)-timerEvery) // it is due now
	for i := len(timers.lates) - 1; i >= 0 && timers.lates[i].at >= since; i-- {
		all += timers.lates[i].by
	}
	return ms(all)
}

// slowest is how late the worst timer was.
func slowest() (most time.Duration) {
	timers.mu.Lock()
	defer timers.mu.Unlock()
	for _, l := range timers.lates {
		most = max(most, l.by)
	}
	return ms(most)
}
