package wire

import (
	"math"
	"time"
)

// While a connection has holds or waiters it sends heartbeats, each a quorum request that writes
// nothing: their answers move the deadline on. A process that computes on more goroutines than it
// has processors must not lose its holds. So a packetConn writes the heartbeat where the timer
// fires, whether or not the last heartbeat is answered, and records the answer where the packet is
// read. Two goroutines wait for a processor then, the timer's and the reading one.
//
// With a period P and a round trip R, both steady, the deadline stays ahead if there is a whole m
// for which
//   - mP >= R + 9T/32: each heartbeat proves the heartbeat that was sent m periods before;
//   - (m+1)P + R < T: the next answer comes in time.
//
// With P = 3T/16 and m = 3 both hold for any R below T/4, and with a slightly shorter P for T/4,
// too. If a goroutine that is ready waits up to W for a processor, R is W, and the heartbeats leave
// up to W late. Then (m+1)P + 2W < T must hold, and does for a W below T/8.

// beatAfter returns the time from one heartbeat to the next. unanswered says that a heartbeat is
// not answered when the next one leaves: R is above 3T/16.
func beatAfter(timeout time.Duration, unanswered bool) time.Duration {
	period := timeout * 3 / 16
	if unanswered {
		period -= timeout / 160
	}
	return period
}

// beats is when a Conn sends heartbeats, guarded by its mu.
type beats struct {
	wanted bool
	// One timer would do if the goroutine that it starts ran at once, as it mostly does. In a busy
	// process the runtime now and then puts it behind all others: the second timer's is in time.
	timers     [2]*time.Timer
	due        time.Time // for the next one; if one is late, those behind it are not
	unanswered int       // heartbeats that are not answered yet
}

func newBeats(beat func()) (b beats) {
	for i := range b.timers {
		b.timers[i] = time.AfterFunc(math.MaxInt64, beat)
		b.timers[i].Stop()
	}
	return b
}

// KeepAlive begins, or ends, to send heartbeats.
func (c *Conn) KeepAlive(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beats.wanted = on
	c.beatAt(time.Now().Add(beatAfter(c.Timeout(), false)))
}

// beatAt sets when the next heartbeat is sent: at once on a new connection, which has no proof yet.
// Caller holds mu.
func (c *Conn) beatAt(due time.Time) {
	c.beats.due = due
	for i, timer := range c.beats.timers {
		if c.beats.wanted {
			timer.Reset(time.Until(due) + time.Duration(i)*c.Timeout()/64)
		} else {
			timer.Stop()
		}
	}
}

// beat is called by the timers. The first call sends the heartbeat, a Multi of one check of the
// root, which always exists. A Sync would not do: a deposed leader that does not know it is deposed
// still answers it.
func (c *Conn) beat() {
	c.mu.Lock()
	now, w := time.Now(), c.current
	if !c.beats.wanted || now.Before(c.beats.due) {
		c.mu.Unlock()
		return
	}
	period := beatAfter(c.Timeout(), c.beats.unanswered > 0)
	due := c.beats.due.Add(period)
	if now.After(due) { // the process was stopped
		due = now.Add(period)
	}
	c.beatAt(due)
	sends := w != nil && w.pastAuth
	if sends {
		c.beats.unanswered++
	}
	c.mu.Unlock()
	if !sends {
		// On a new connection the client may still be about to send its credentials, which must be
		// first. The heartbeat leaves behind the client's next request, see packetConn.note.
		c.ping()
		return
	}
	const anyVersion, noError, noOp = int32(-1), int32(-1), int32(-1)
	check := encode(nil, int32(opCheck), byte(0), noError, "/", anyVersion, noOp, byte(1), noError)
	w.send(opMulti, check, nil, func(code int32) {
		c.beats.unanswered--
		if code != codeConnectionLoss {
			c.beaten(now)
		}
	})
}
