package test

import "time"

// patience is how long a test waits for a step in real time, at least. On a busy machine no step
// has a known length; and members of an ensemble that miss each other in an election begin the next
// one after initLimit, 20 seconds.
const patience = time.Minute

// limit is how long to wait for what is to happen within d: exactly that in virtual time, where how
// long a step takes can be asserted; in real time it only ends a test that hangs.
func limit(d time.Duration) time.Duration {
	if own() == nil {
		return max(d, patience)
	}
	return d
}

// Poll asks cond every few milliseconds until it holds, or within has passed; in real time a
// minute, if within is less. It is the one place of this module's tests that sleeps.
func Poll(within time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(limit(within))
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if cond() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}
