package wire

import (
	"testing"
	"time"
)

// docs/explain/how-loss-is-detected.md promises that the loss of a lock is reported to a holder
// between 2T/5 and 3T/4 after the last answer. The answers are those to heartbeats and to the
// client's own pings, which it sends every T/3, with every phase between the two.
func TestWhenALossIsTold(t *testing.T) {
	const trip = timeout / 1000
	soonest, latest := timeout, time.Duration(0)
	for phase := time.Duration(0); phase < timeout/3; phase += timeout / 97 {
		l, c := connected(t)
		zero := c.now()
		heartbeat, ping := l.HeartbeatAfter(), phase
		for c.mono < 20*timeout {
			sent := min(heartbeat, ping)
			c.run(sent - c.mono)
			if left := l.Deadline(session).Sub(c.now()); c.mono > 2*timeout {
				soonest = min(soonest, left) // the least that is left, also right before an answer
			}
			c.run(trip)
			l.answered(zero.Add(sent))
			if sent == heartbeat {
				l.Proved(session, zero.Add(sent))
				heartbeat = c.mono + l.HeartbeatAfter()
			}
			if sent == ping {
				ping += timeout / 3
			}
			if c.mono > 2*timeout {
				left := l.Deadline(session).Sub(c.now())
				soonest, latest = min(soonest, left), max(latest, left)
			}
		}
	}
	of := func(d time.Duration) float64 { return d.Seconds() / timeout.Seconds() }
	t.Logf("between %.3f T and %.3f T", of(soonest), of(latest))
	if of(soonest) < 0.4 || of(soonest) > 0.45 || of(latest) > 0.75 || of(latest) < 0.7 {
		t.Errorf("reported between %.3f T and %.3f T after the last answer", of(soonest), of(latest))
	}
}
