package test

import "time"

// patience is the shortest limit of a wait in real time. On a busy machine no step has a known
// length, and members of an ensemble that miss each other in an election begin the next election
// after initLimit, 20 seconds.
const patience = time.Minute

// limit returns how long to wait for something that must happen within d: d in virtual time, where
// a test can assert how long a step takes. In real time a limit only ends a test that hangs.
func limit(d time.Duration) time.Duration {
	if own() == nil {
		return max(d, patience)
	}
	return d
}

// Poll calls cond every few milliseconds until it returns true, or within has passed; in real time
// it waits for at least a minute.
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
