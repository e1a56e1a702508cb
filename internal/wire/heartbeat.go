package wire

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// While a connection has holds or waiters, it sends heartbeats. A heartbeat is a quorum request
// that writes nothing; its answer moves the deadline. A process that computes on more goroutines
// than it has processors must not lose its holds. So the timer's goroutine writes the heartbeat,
// whether or not the last heartbeat is answered, and the reading goroutine records the answer. Only
// these two goroutines must get a processor.
//
// With a period P and a round trip R, both steady, the deadline stays ahead if there is a whole m
// for which
//   - mP >= R + 9T/32: each heartbeat proves the heartbeat that was sent m periods before;
//   - (m+1)P + R < T: the next answer comes in time.
//
// With P = 2T/11 and m = 3 both hold for any R up to T/4. If a goroutine waits up to W for a
// processor, R is W, and the heartbeats leave up to W late. Then mP >= 2W + 9T/32 and (m+1)P + 2W <
// T must hold, which is so for a W up to T/8.

// beats has the times of a Conn's heartbeats. The Conn's mu guards it.
type beats struct {
	wanted bool
	// In a busy process the runtime now and then runs the goroutine of a timer behind all others.
	// Then the goroutine of the second timer, which fires a little later, is in time: with 60 busy
	// goroutines on one processor and T = 2 s, one in ten heartbeats was more than 1.9 s late with
	// one timer, and 0.1 s with two.
	timers [2]*time.Timer
	due    time.Time // of the next heartbeat; a late heartbeat does not delay the next
}

// KeepAlive starts or stops the heartbeats. A heartbeat that was due soon when they were stopped is
// still due then: a waiter that starts over must not put it off.
func (c *Conn) KeepAlive(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beats.wanted = on
	due := c.beats.due
	if now := time.Now(); !due.After(now) {
		due = now.Add(c.BeatPeriod())
	}
	c.beatAt(due)
}

// BeatPeriod returns P, the time between two heartbeats.
func (c *Conn) BeatPeriod() time.Duration { return c.Timeout() * 2 / 11 }

// beatAt sets when the next heartbeat is sent. On a new connection, which has no proof yet, that is
// at once. Caller holds mu.
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

// beat is called by both timers; the first call sends the heartbeat. It is a Multi that checks the
// root, which always exists. A Sync would prove nothing, because a leader that was deposed without
// noticing answers it.
func (c *Conn) beat() {
	c.mu.Lock()
	now := time.Now()
	p, _ := c.in(AnySession)
	if now.Before(c.beats.due) {
		c.mu.Unlock()
		return
	}
	due := c.beats.due.Add(c.BeatPeriod())
	if now.After(due) { // the process was paused
		due = now.Add(c.BeatPeriod())
	}
	c.beatAt(due)
	c.mu.Unlock()
	if p != nil {
		p.send(outgoing{Request: Multi(&zk.CheckVersionRequest{Path: "/", Version: anyVersion}), heartbeat: true})
	}
}

// ping is called by a timer every T/3 while there is a session, also next to heartbeats: a server
// may answer nothing else. See serve.
func (c *Conn) ping() {
	p := c.running()
	if p == nil {
		return
	}
	c.pings.Reset(c.Timeout() / 3)
	p.send(outgoing{Request: Request{op: opPing}})
}
