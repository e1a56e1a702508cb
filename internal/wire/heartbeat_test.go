package wire

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A packetLog records the packets of a client in the order in which it writes them.
type packetLog struct {
	net.Conn
	mu      *sync.Mutex
	packets *[]written
	slow    time.Duration // what writing a heartbeat takes
}

type written struct {
	at      time.Time // when the write began
	body    []byte
	xid, op int32
}

func (l *packetLog) Write(p []byte) (int, error) {
	xid, op := request(p)
	l.mu.Lock()
	*l.packets = append(*l.packets, written{time.Now(), bytes.Clone(p[lengthSize:]), xid, op})
	l.mu.Unlock()
	if xid <= ownXids && op == opMulti {
		time.Sleep(l.slow) // virtual
	}
	return l.Conn.Write(p)
}

// A beatServer answers heartbeats, after a delay, and logs what the client writes.
type beatServer struct {
	*fakeServer
	mu      sync.Mutex
	packets []written
	delay   time.Duration // of answers; less than zero: there are none
	slow    time.Duration // of the client's writes
}

func newBeatServer(t *testing.T) *beatServer {
	b := &beatServer{fakeServer: newFakeServer(t)}
	b.wrap = func(c net.Conn) net.Conn { return &packetLog{c, &b.mu, &b.packets, b.slow} }
	b.answer = func(_ int64, c net.Conn, xid, op int32) bool {
		if op != opMulti {
			return false
		}
		b.mu.Lock()
		delay := b.delay
		b.mu.Unlock()
		if delay >= 0 {
			reply := slices.Concat(header(xid), word(opCheck), []byte{0}, word(0), word(-1), []byte{1}, word(-1))
			time.AfterFunc(delay, func() { c.Write(frame(reply)) })
		}
		return true
	}
	b.start()
	return b
}

// heartbeats returns the heartbeats that were written from an instant on.
func (b *beatServer) heartbeats(from time.Time) (all []written) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.packets {
		if w.xid <= ownXids && w.op == opMulti && !w.at.Before(from) {
			all = append(all, w)
		}
	}
	return all
}

// docs/explain/how-loss-is-detected.md promises that a holder is notified of its loss 2T/5 to 3T/4
// after the last answer. Servers answer heartbeats and the client's own pings, which leave every
// T/3. The test plays many phases between the two.
func TestWhenALossIsTold(t *testing.T) {
	soonest, latest := timeout, time.Duration(0)
	for phase := time.Duration(0); phase < timeout/3; phase += timeout / 97 {
		inBubble(t, func(t *testing.T) {
			b := newBeatServer(t)
			b.network.SetLatency(timeout / 2000)
			conn := b.connect()
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

// While a heartbeat is written slowly, the client must not write. It would wait for a mutex, and
// the clock of the bubble would stop. The client sends its pings every T/3.
const (
	slowWrite = timeout / 32
	shortly   = timeout * 99 / 100
)

// A heartbeat leaves on time, whether or not the last heartbeat is answered, and also if it took
// long to write the last heartbeat.
func TestHeartbeatsLeaveOnTime(t *testing.T) {
	for name, c := range map[string]struct {
		delay, slow time.Duration
	}{
		"answered":       {0, 0},
		"answered late":  {timeout / 4, 0},
		"not answered":   {-1, 0},
		"written slowly": {0, slowWrite},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBeatServer(t)
				b.delay, b.slow = c.delay, c.slow
				conn := b.connect()
				began := time.Now()
				conn.KeepAlive(true)
				time.Sleep(shortly) // virtual
				conn.KeepAlive(false)
				all := b.heartbeats(began)
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
				if n := len(b.heartbeats(began)); n != last {
					t.Errorf("%d heartbeats after the last lease", n-last)
				}
			})
		})
	}
}

// The heartbeat has the same bytes as the client's own Multi of a check.
func TestTheHeartbeatIsAMultiOfACheck(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBeatServer(t)
		conn := b.connect()
		began := time.Now()
		conn.KeepAlive(true)
		time.Sleep(timeout / 4) // virtual
		if _, err := conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		last := b.packets[len(b.packets)-1]
		b.mu.Unlock()
		for _, h := range b.heartbeats(began) {
			if !bytes.Equal(h.body[4:], last.body[4:]) {
				t.Errorf("%x is not %x", h.body[4:], last.body[4:])
			}
		}
	})
}

// The deadline counts from an instant before the heartbeat is written. The server may receive it at
// once and then stop.
func TestAHeartbeatCountsFromBeforeItWasWritten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBeatServer(t)
		b.slow = slowWrite
		conn := b.connect()
		began := time.Now()
		conn.KeepAlive(true)
		moved := 0
		var base time.Time
		for ; time.Since(began) < shortly; time.Sleep(timeout / 800) { // virtual
			now := conn.Deadline(fakeSession).Add(-timeout)
			if now == base || now.Before(began) {
				continue
			}
			base = now
			b.mu.Lock()
			if !slices.ContainsFunc(b.packets, func(w written) bool { return w.at.Equal(base) }) {
				t.Errorf("the deadline counts from %v, when nothing was written", base.Sub(began))
			}
			b.mu.Unlock()
			moved++
		}
		if moved < 2 {
			t.Errorf("the deadline has moved %d times", moved)
		}
	})
}

// On a new connection a heartbeat leaves at once, behind the credentials. No two heartbeats of a
// session have the same xid.
func TestAHeartbeatLeavesAtOnceAfterAReconnect(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithDigestAuth("user", "secret")}} {
		t.Run("", func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBeatServer(t)
				conn := b.connect(opts...)
				conn.KeepAlive(true)
				time.Sleep(timeout / 8) // virtual
				cut := time.Now()
				b.network.Between("here", "zk1").Cut()
				for conn.Epoch() < 2 {
					time.Sleep(time.Millisecond) // virtual
				}
				if n := len(b.heartbeats(cut)); n != 1 {
					t.Fatalf("%d heartbeats within a millisecond, want 1", n)
				}
				b.mu.Lock()
				var ops []int32 // behind the handshake
				for _, w := range b.packets {
					if !w.at.Before(cut) {
						ops = append(ops, w.op)
					}
				}
				b.mu.Unlock()
				auth, beat := slices.Index(ops, opSetAuth), slices.Index(ops, opMulti)
				if auth > beat || len(opts) > 0 && auth < 0 {
					t.Errorf("operations %d: no credentials, or behind a heartbeat", ops)
				}
				time.Sleep(timeout) // virtual
				seen := make(map[int32]bool)
				for _, h := range b.heartbeats(time.Time{}) {
					if seen[h.xid] {
						t.Errorf("xid %d was used twice", h.xid)
					}
					seen[h.xid] = true
				}
			})
		})
	}
}

// All pings have one xid, and far from the server several are under way. Each answer counts for the
// oldest of them: at each moment the deadline counts at the latest from the newest packet whose
// answer came the settling time before an answered quorum request was sent.
func TestAnAnswerCountsForTheOldestPing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var mu sync.Mutex
		var packets []written
		const delay = timeout / 2
		f.wrap = func(c net.Conn) net.Conn { return &packetLog{c, &mu, &packets, 0} }
		f.answer = func(_ int64, c net.Conn, xid, op int32) bool {
			reply := header(xid)
			switch op {
			case opMulti:
				reply = slices.Concat(reply, word(opCheck), []byte{0}, word(0), word(-1), []byte{1}, word(-1))
			case opExists, opGetData:
				if op == opGetData {
					reply = append(reply, word(0)...)
				}
				reply = append(reply, make([]byte, 68)...)
			}
			time.AfterFunc(delay, func() { c.Write(frame(reply)) })
			return true
		}
		f.start()
		conn := f.connect()
		conn.KeepAlive(true)
		began := time.Now()
		for i := 0; time.Since(began) < 5*timeout; i++ {
			time.Sleep(timeout / 400) // virtual
			if i%10 == 0 {
				go conn.Get("/a") // otherwise the client leaves the silent server
			}
			mu.Lock()
			now, bound := time.Now(), packets[0].at // the handshake is a proof, too
			for _, q := range packets[1:] {
				if q.op != opMulti || now.Sub(q.at) < delay {
					continue
				}
				for _, a := range packets[1:] {
					if q.at.Sub(a.at.Add(delay)) >= settle(timeout) && a.at.After(bound) {
						bound = a.at
					}
				}
			}
			mu.Unlock()
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

// While servers accept connections and close them, no heartbeat leaves a request behind.
func TestHeartbeatsOfAnOutageLeaveNoRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var mu sync.Mutex
		down, exists := false, 0
		f.welcome = func(n int64, c net.Conn) bool {
			mu.Lock()
			defer mu.Unlock()
			if down {
				c.Close()
			}
			return down
		}
		f.answer = func(_ int64, c net.Conn, xid, op int32) bool {
			mu.Lock()
			defer mu.Unlock()
			if op == opExists {
				exists++
			}
			if op == opMulti {
				c.Write(frame(slices.Concat(header(xid), word(opCheck), []byte{0}, word(0), word(-1), []byte{1}, word(-1))))
			}
			return op == opMulti
		}
		f.start()
		conn := f.connect()
		conn.KeepAlive(true)
		time.Sleep(timeout) // virtual
		mu.Lock()
		down, exists = true, 0
		mu.Unlock()
		f.network.Between("here", "zk1").Cut()
		time.Sleep(10 * time.Minute) // virtual
		mu.Lock()
		down = false
		mu.Unlock()
		time.Sleep(timeout) // virtual
		mu.Lock()
		if exists > 1 {
			t.Errorf("%d requests waited for the reconnect", exists)
		}
		mu.Unlock()
	})
}
