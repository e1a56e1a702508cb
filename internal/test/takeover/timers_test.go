package takeover

import (
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
)

// The promises hold as long as the process is scheduled. This measures whether it was: how late a
// goroutine wakes up that waits for a channel that a timer closes, as the waiters for a loss do. A
// promised event may be late by as much as the process stood still, and no more.
var timers struct {
	mu       sync.Mutex
	watchers int
	stop     func()
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
	defer timers.mu.Unlock()
	if timers.watchers++; timers.watchers == 1 {
		timers.last = history.Now()
		done, ended := make(chan struct{}), make(chan struct{})
		timers.stop = func() { close(done); <-ended }
		go func() {
			defer close(ended)
			for !closed(done) {
				news := make(chan struct{})
				time.AfterFunc(timerEvery, func() { close(news) })
				<-news
				fired()
			}
		}()
	}
	t.Cleanup(func() {
		timers.mu.Lock()
		timers.watchers--
		stop, last := timers.stop, timers.watchers == 0
		timers.mu.Unlock()
		if last {
			stop()
		}
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
func stood(since int64) time.Duration { return stoodBetween(since, history.Now()) }

// stoodBetween is for how long it has not run within that time.
func stoodBetween(from, to int64) (all time.Duration) {
	timers.mu.Lock()
	defer timers.mu.Unlock()
	within := func(from2, to2 int64) time.Duration { return time.Duration(max(0, min(to, to2)-max(from, from2))) }
	all = within(timers.last+int64(timerEvery), history.Now()) // it is due now
	for i := len(timers.lates) - 1; i >= 0 && timers.lates[i].at >= from; i-- {
		all += within(timers.lates[i].at-int64(timers.lates[i].by), timers.lates[i].at)
	}
	return all
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
