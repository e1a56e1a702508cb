package wire

import (
	"encoding/binary"
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

// xidBeat is the first xid of heartbeats. They count down from it, and never begin again: a server
// must not take a heartbeat that the session has sent by way of another server, and that is
// committed only now, for a heartbeat of this connection.
const xidBeat = -1000

// beats is when a Conn sends heartbeats, guarded by its mu.
type beats struct {
	wanted bool
	// One timer would do if the goroutine that it starts ran at once, as it mostly does. In a busy
	// process the runtime now and then puts it behind all others: the second timer's is in time.
	timers [2]*time.Timer
	due    time.Time // for the next one; if one is late, those behind it are not
	xid    int32     // of the next one
}

func newBeats(beat func()) beats {
	b := beats{xid: xidBeat}
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

// beatNow has a heartbeat sent at once: a new connection has no proof yet.
func (c *Conn) beatNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beatAt(time.Now())
}

// beatAt sets the timers; caller holds mu.
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

// beat is called by the timers. The first call sends the heartbeat.
func (c *Conn) beat() {
	c.mu.Lock()
	w := c.current
	c.mu.Unlock()
	unanswered := w != nil && w.unanswered()
	c.mu.Lock()
	now := time.Now()
	if !c.beats.wanted || now.Before(c.beats.due) {
		c.mu.Unlock()
		return
	}
	xid := c.beats.xid
	c.beats.xid--
	period := beatAfter(c.Timeout(), unanswered)
	due := c.beats.due.Add(period)
	if now.After(due) { // the process was stopped
		due = now.Add(period)
	}
	c.beatAt(due)
	c.mu.Unlock()
	if w != nil {
		w.beat(xid)
	}
}

// unanswered reports whether a heartbeat is not answered yet.
func (w *packetConn) unanswered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beating > 0
}

// beat sends a heartbeat. On a new connection the client may still be about to send its
// credentials, which must be first. beat then has the client send a request, and the heartbeat
// leaves behind that.
func (w *packetConn) beat(xid int32) {
	early := false
	w.send(packet{xid: xid, op: opMulti}, heartbeat(xid), func() bool {
		if early = !w.pastAuth; !early {
			w.beating++
		}
		return !early
	})
	if early {
		go w.client.ping()
	}
}

// heartbeat returns the packet: a Multi of one check of the root, which always exists. A Sync would
// not do: a deposed leader that does not know it is deposed still answers it.
func heartbeat(xid int32) []byte {
	p := make([]byte, lengthSize)
	word := func(n int32) { p = binary.BigEndian.AppendUint32(p, uint32(n)) }
	header := func(op int32, done byte) { // of an operation in a Multi
		word(op)
		p = append(p, done)
		word(-1)
	}
	word(xid)
	word(opMulti)
	header(opCheck, 0)
	p = appendString(p, "/")
	word(-1) // any version
	header(-1, 1)
	binary.BigEndian.PutUint32(p, uint32(len(p)-lengthSize))
	return p
}
