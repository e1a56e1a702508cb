package wire

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// heartbeats returns the heartbeats that were written from an instant on.
func (f *fakeServer) heartbeats(from time.Time) []written {
	return slices.DeleteFunc(f.written(from), func(w written) bool { return !w.isHeartbeat() })
}

// docs/explain/how-loss-is-detected.md promises that a holder is notified of its loss 2T/5 to 3T/4
// after the last answer. Servers answer heartbeats and pings, which leave every
// T/3. The test plays many phases between the two.
func TestWhenALossIsTold(t *testing.T) {
	soonest, latest := timeout, time.Duration(0)
	for phase := time.Duration(0); phase < timeout/3; phase += timeout / 97 {
		inBubble(t, func(t *testing.T) {
			f := newFakeServer(t).start()
			f.network.SetLatency(timeout / 2000)
			conn := f.connect()
			time.Sleep(phase) // virtual
			conn.KeepAlive(true)
			time.Sleep(2 * timeout) // virtual
			for range 4000 {
				left := time.Until(conn.Deadline(fakeSession))
				soonest, latest = min(soonest, left), max(latest, left)
				time.Sleep(timeout / 800) // virtual
			}
		})
	}
	of := func(d time.Duration) float64 { return d.Seconds() / timeout.Seconds() }
	t.Logf("between %.3f T and %.3f T", of(soonest), of(latest))
	if of(soonest) < 0.4 || of(soonest) > 0.5 || of(latest) > 0.75 || of(latest) < 0.7 {
		t.Errorf("reported between %.3f T and %.3f T after the last answer", of(soonest), of(latest))
	}
}

const (
	slowWrite = timeout / 32
	shortly   = timeout * 99 / 100
)

// A heartbeat leaves on time, whether or not the last heartbeat is answered, and also if it took
// long to write the last heartbeat.
func TestHeartbeatsLeaveOnTime(t *testing.T) {
	for name, c := range map[string]struct {
		delay, slow time.Duration
		over        bool // waiters start over meanwhile
	}{
		"answered":       {},
		"answered late":  {delay: timeout / 4},
		"not answered":   {delay: -1},
		"written slowly": {slow: slowWrite},
		"started over":   {over: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t).start()
				f.late = func(op int32) time.Duration {
					if op == opMulti {
						return c.delay
					}
					return 0
				}
				f.slow = c.slow
				conn := f.connect()
				began := time.Now()
				conn.KeepAlive(true)
				for range 99 {
					time.Sleep(timeout / 100) // virtual
					conn.KeepAlive(!c.over)
					conn.KeepAlive(true)
				}
				conn.KeepAlive(false)
				if latency, _ := conn.Heartbeat(); latency != max(c.delay, c.slow, 0) {
					t.Errorf("the longest latency is %v", latency)
				}
				all := f.heartbeats(began)
				if len(all) != 5 {
					t.Fatalf("%d heartbeats, want 5", len(all))
				}
				for i, h := range all[2:] {
					if got := h.at.Sub(all[i+1].at); got != timeout*2/11 {
						t.Errorf("heartbeat %d left %v after the one before it, want 2T/11", i+2, got)
					}
				}
				last := len(all)
				time.Sleep(timeout / 2) // virtual
				if n := len(f.heartbeats(began)); n != last {
					t.Errorf("%d heartbeats after the last lease", n-last)
				}
			})
		})
	}
}

// After a pause of the process one heartbeat leaves, not each that is due.
func TestAHeartbeatAfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn := f.connect()
		conn.KeepAlive(true)
		time.Sleep(shortly) // virtual
		conn.mu.Lock()
		conn.beats.due = time.Now().Add(-timeout)
		conn.mu.Unlock()
		from := time.Now()
		conn.beat()
		time.Sleep(conn.BeatPeriod() / 2) // virtual
		if n := len(f.heartbeats(from)); n != 1 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

// On a new connection a heartbeat leaves at once, behind the credentials. No two heartbeats of a
// session have the same xid.
func TestAHeartbeatLeavesAtOnceAfterAReconnect(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithDigestAuth("user", "secret")}} {
		t.Run("", func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t).start()
				conn := f.connect(opts...)
				conn.KeepAlive(true)
				time.Sleep(timeout / 8) // virtual
				cut := time.Now()
				f.network.Between("here", "zk1").Cut()
				for conn.Epoch() < 2 {
					time.Sleep(time.Millisecond) // virtual
				}
				if n := len(f.heartbeats(cut)); n != 1 {
					t.Fatalf("%d heartbeats within a millisecond, want 1", n)
				}
				var ops []int32 // behind the handshake
				for _, w := range f.written(cut) {
					ops = append(ops, w.op)
				}
				auth, beat := slices.Index(ops, opSetAuth), slices.Index(ops, opMulti)
				if auth > beat || len(opts) > 0 && auth < 0 {
					t.Errorf("operations %d: no credentials, or behind a heartbeat", ops)
				}
				time.Sleep(timeout) // virtual
				seen := make(map[int32]bool)
				for _, h := range f.heartbeats(time.Time{}) {
					if seen[h.xid] {
						t.Errorf("xid %d was used twice", h.xid)
					}
					seen[h.xid] = true
				}
			})
		})
	}
}

// At each moment the deadline counts at the latest from the newest packet whose answer came the
// settling time before an answered quorum request was sent, and from before the packet was written:
// the server may receive it at once and then stop.
func TestTheDeadlineIsProved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const delay = timeout / 2
		f := newFakeServer(t).start()
		conn := f.connect()
		f.slow = slowWrite
		f.late = func(int32) time.Duration { return delay }
		conn.KeepAlive(true)
		began := time.Now()
		for i := 0; time.Since(began) < 5*timeout; i++ {
			time.Sleep(timeout / 400) // virtual
			switch i % 10 {
			case 0:
				go conn.Client().Get("/a") // otherwise the silent server is left
			case 5:
				go conn.Client().AddAuth("digest", fmt.Appendf(nil, "user%d:secret", i)) // which the server does not note
			}
			now, packets := time.Now(), f.written(time.Time{})
			bound := packets[0].at // the handshake is a proof, too
			for _, q := range packets[1:] {
				if q.op != opMulti || now.Sub(q.at) < delay {
					continue
				}
				for _, a := range packets[1:] {
					if a.op != opSetAuth && q.at.Sub(a.at.Add(delay)) >= settle(timeout) && a.at.After(bound) {
						bound = a.at
					}
				}
			}
			base := conn.Deadline(fakeSession).Add(-timeout)
			if conn.Epoch() != 1 {
				t.Fatal("reconnected")
			}
			if base.After(bound) {
				t.Fatalf("after %v the deadline counts from %v, proved is %v", now.Sub(began), base.Sub(began), bound.Sub(began))
			}
		}
	})
}
