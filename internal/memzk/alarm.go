package memzk

import "time"

// alarm calls a function once, at a set time, with mu held. Unlike a ticker it has no timer while
// nothing is due, so a synctest bubble can detect that all its goroutines wait.
type alarm struct {
	e     *Ensemble
	do    func()
	timer *time.Timer
	due   time.Duration // since the start of the ensemble
	set   bool
}

func (e *Ensemble) newAlarm(do func()) alarm { return alarm{e: e, do: do} }

// at sets the alarm, or moves it; caller holds mu, as for all methods.
func (a *alarm) at(due time.Duration) {
	if a.set && a.due == due || a.e.stopped {
		return
	}
	a.stop()
	a.set, a.due = true, due
	a.e.running.Add(1) // until the alarm has rung or is stopped
	in := due - a.e.now()
	if a.timer == nil {
		a.timer = time.AfterFunc(in, a.ring)
	} else {
		a.timer.Reset(in)
	}
}

// before makes sure that the alarm rings at due or earlier.
func (a *alarm) before(due time.Duration) {
	if !a.set || due < a.due {
		a.at(due)
	}
}

func (a *alarm) stop() {
	a.set = false
	// A timer that cannot be stopped is about to ring; ring returns because the alarm is not set.
	if a.timer != nil && a.timer.Stop() {
		a.e.running.Done()
	}
}

func (a *alarm) ring() {
	defer a.e.running.Done()
	a.e.lock()
	defer a.e.unlock()
	// If the alarm was moved after its timer had fired, the new timer rings the alarm again.
	if !a.set || a.e.stopped || a.e.now() < a.due {
		return
	}
	a.set = false
	a.do()
}
