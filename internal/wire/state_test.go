package wire

import (
	"net"
	"testing"
	"time"
	"unsafe"
)

const (
	timeout = 4 * time.Second
	session = int64(0x1234)
)

// connected returns a state whose handshake was sent and answered just now.
func connected(t *testing.T) (*state, *fakeClock) {
	t.Helper()
	c := newClock()
	l := newState(c.now)
	l.begin(session, timeout, c.now())
	return l, c
}

func TestClocks(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name  string
		happy bool
		pass  func(c *fakeClock)
	}{
		{"nothing", true, func(c *fakeClock) {}},
		{"just before the deadline", true, func(c *fakeClock) { c.run(timeout - 1) }},
		{"at the deadline", false, func(c *fakeClock) { c.run(timeout) }},
		{"process frozen past the deadline", false, func(c *fakeClock) { c.run(10 * timeout) }},
		{"machine suspended past the deadline", false, func(c *fakeClock) { c.suspend(timeout) }},
		{"machine suspended for less", true, func(c *fakeClock) { c.suspend(timeout - second) }},
		{"half run, half suspended", false, func(c *fakeClock) { c.run(timeout / 2); c.suspend(timeout / 2) }},
		{"wall clock set forward", false, func(c *fakeClock) { c.step(time.Hour) }},
		{"wall clock set back does not lengthen", false, func(c *fakeClock) { c.step(-time.Hour); c.run(timeout) }},
		{"wall clock set back does not shorten", true, func(c *fakeClock) { c.step(-time.Hour); c.run(timeout - 1) }},
		{"wall clock forth and back", true, func(c *fakeClock) { c.step(time.Hour); c.step(-time.Hour) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, c := connected(t)
			tc.pass(c)
			if got := l.Alive(session); got != tc.happy {
				t.Errorf("Alive = %v at the first look, want %v", got, tc.happy)
			}
		})
	}
}

// A process may be paused anywhere, also inside Alive. So Alive must read the clock last.
func TestFrozenInsideAlive(t *testing.T) {
	c := newClock()
	l := newState(func() time.Time {
		c.run(2 * timeout) // the process is frozen right before it reads the clock
		return c.now()
	})
	l.begin(session, timeout, c.now())
	if l.Alive(session) {
		t.Error("alive after a freeze between the load of the state and the look at the clock")
	}
}

func TestDeadline(t *testing.T) {
	ms := time.Millisecond
	type step struct {
		at  time.Duration
		do  string // "answered", "proved", "reconnect"
		was time.Duration
	}
	for _, tc := range []struct {
		name  string
		steps []step
		want  time.Duration // the packet that the deadline counts from
	}{
		{"handshake alone", nil, 0},
		{"answers alone prove nothing", []step{{1000 * ms, "answered", 1000 * ms}, {2000 * ms, "answered", 2000 * ms}}, 0},
		{"a proof alone counts from the handshake", []step{{3000 * ms, "proved", 3000 * ms}}, 0},
		{"a proof does not vouch for itself", []step{{1500 * ms, "proved", 1500 * ms}}, 0},
		{"nor does one a quarter later, which leaves the leader's loop no time", []step{{1500 * ms, "answered", 1500 * ms}, {2625 * ms, "proved", 2624 * ms}}, 0},
		{"a quarter and a bit later it does", []step{{1500 * ms, "answered", 1500 * ms}, {2626 * ms, "proved", 2625 * ms}}, 1500 * ms},
		{"that long after it was sent is not enough", []step{{1501 * ms, "answered", 1500 * ms}, {2626 * ms, "proved", 2625 * ms}}, 0},
		{"the newest that is old enough", []step{
			{500 * ms, "answered", 500 * ms}, {1000 * ms, "answered", 1000 * ms}, {1501 * ms, "answered", 1501 * ms},
			{2626 * ms, "proved", 2625 * ms}}, 1000 * ms},
		{"heartbeats a quarter and a bit after each answer", []step{
			{10 * ms, "proved", 0}, {1145 * ms, "proved", 1135 * ms}, {2280 * ms, "proved", 2270 * ms}}, 1135 * ms},
		{"heartbeats that are under way together", []step{
			{1000 * ms, "proved", 100 * ms}, {1800 * ms, "proved", 800 * ms}, {2600 * ms, "proved", 1500 * ms},
			{3300 * ms, "proved", 2200 * ms}}, 100 * ms},
		{"the next of these", []step{
			{1000 * ms, "proved", 100 * ms}, {1800 * ms, "proved", 800 * ms}, {2600 * ms, "proved", 1500 * ms},
			{3300 * ms, "proved", 2200 * ms}, {4000 * ms, "proved", 2925 * ms}}, 800 * ms},
		{"one that was sent too early for the next", []step{
			{1000 * ms, "proved", 100 * ms}, {1800 * ms, "proved", 800 * ms}, {2600 * ms, "proved", 1500 * ms},
			{3300 * ms, "proved", 2200 * ms}, {4000 * ms, "proved", 2924 * ms}}, 100 * ms},
		{"a reconnect alone proves nothing", []step{{3000 * ms, "reconnect", 2900 * ms}}, 0},
		{"nor do answers behind it", []step{{3000 * ms, "reconnect", 2900 * ms}, {3010 * ms, "answered", 3001 * ms}}, 0},
		{"a quorum request behind it does, at once", []step{{3000 * ms, "reconnect", 2900 * ms}, {3050 * ms, "proved", 3000 * ms}}, 2900 * ms},
		{"not one that was sent before it was answered", []step{{3000 * ms, "reconnect", 2900 * ms}, {3050 * ms, "proved", 2999 * ms}}, 0},
		{"nor does another reconnect", []step{
			{2000 * ms, "reconnect", 1900 * ms}, {3000 * ms, "reconnect", 2900 * ms}, {3050 * ms, "proved", 2001 * ms}}, 0},
		{"a proof that proves nothing new moves nothing back", []step{
			{2000 * ms, "reconnect", 1900 * ms}, {2100 * ms, "answered", 2100 * ms}, {3300 * ms, "proved", 3250 * ms}, {3400 * ms, "proved", 3350 * ms}}, 2100 * ms},
		{"packets of the old connection prove nothing", []step{
			{2000 * ms, "answered", 2000 * ms}, {2200 * ms, "reconnect", 1000 * ms}, {3500 * ms, "proved", 3400 * ms}}, 1000 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, c := connected(t)
			zero := c.now()
			for _, s := range tc.steps {
				c.run(s.at - c.mono)
				switch was := zero.Add(s.was); s.do {
				case "answered":
					l.answered(was, false)
				case "proved":
					l.answered(was, true)
				case "reconnect":
					l.disconnect()
					l.begin(session, timeout, was)
				}
			}
			if got := l.Deadline(session).Sub(zero) - timeout; got != tc.want {
				t.Errorf("counts from %v, want %v", got, tc.want)
			}
		})
	}
}

// A handshake that resumes the session never extends the deadline. If it grants a shorter timeout
// that ends before the deadline, the deadline is the end of that timeout: the leader counts from
// the handshake on.
func TestTheDeadlineAfterAnotherTimeout(t *testing.T) {
	for _, tc := range []struct{ after, granted, want, suspended time.Duration }{
		{time.Second, timeout, timeout, 0},
		{time.Second, 2 * timeout, timeout, 0},
		{time.Second, time.Second, 2 * time.Second, 0},
		{timeout - time.Second/2, time.Second, timeout, 0},
		{timeout - time.Second, time.Second, timeout, 0},
		// The wall clock alone shows that the machine was suspended before.
		{time.Second / 2, timeout - time.Second, timeout, 3 * time.Second / 2},
	} {
		l, c := connected(t)
		began := c.now()
		c.run(tc.after)
		c.suspend(tc.suspended)
		l.begin(session, tc.granted, c.now())
		if got := l.Deadline(session).Sub(began); got != tc.want {
			t.Errorf("granted %v after %v: the deadline is at %v, want %v", tc.granted, tc.after, got, tc.want)
		}
		c.run(tc.want - tc.after - tc.suspended - 1)
		if !l.Alive(session) {
			t.Errorf("granted %v after %v: over before the deadline", tc.granted, tc.after)
		}
		c.run(1)
		if l.Alive(session) {
			t.Errorf("granted %v after %v: alive at the deadline", tc.granted, tc.after)
		}
	}
}

// While no lock is held, perhaps for days, the Conn sends no quorum request. The first quorum
// request must still prove a fresh packet, and the packets must not accumulate.
func TestManyPackets(t *testing.T) {
	l, c := connected(t)
	for range 100_000 {
		c.run(time.Millisecond)
		l.answered(c.now(), false)
	}
	sent := c.now()
	l.answered(sent, true)
	age := sent.Add(timeout).Sub(l.Deadline(session))
	if wait := settle(timeout); age < wait || age > wait+timeout/thinning+time.Millisecond {
		t.Errorf("counts from a packet %v old, want %v and a little", age, wait)
	}
}

// What the state says after each event, and whether Changed reported the event.
func TestSessions(t *testing.T) {
	c := newClock()
	l := newState(c.now)
	second := time.Second
	var sent time.Time // of each handshake, which is answered a second later
	begin := func(session int64, granted time.Duration) func() {
		return func() { sent = c.now(); c.run(second); l.begin(session, granted, sent) }
	}
	for _, tc := range []struct {
		name    string
		do      func()
		session int64
		epoch   uint64
		timeout time.Duration
		changed bool
	}{
		{"new", func() {}, 0, 0, 0, false},
		{"answered without a session", func() { l.answered(c.now(), true) }, 0, 0, 0, false},
		{"disconnected without a session", l.disconnect, 0, 0, 0, false},
		{"expired without a session", l.expire, 0, 0, 0, false},
		{"connected", begin(7, 10*second), 7, 1, 10 * second, true},
		{"answered", func() { l.answered(c.now(), false) }, 7, 1, 10 * second, false},
		{"answered by a quorum", func() { l.answered(c.now(), true) }, 7, 1, 10 * second, false},
		{"disconnected", l.disconnect, 7, 1, 10 * second, true},
		{"disconnected again", l.disconnect, 7, 1, 10 * second, false},
		{"reconnected, with a longer timeout", begin(7, 20*second), 7, 2, 10 * second, true},
		{"reconnected, with a shorter timeout", begin(7, 8*second), 7, 3, 8 * second, true},
		{"disconnected before it expires", l.disconnect, 7, 3, 8 * second, true},
		{"expired", l.expire, 0, 3, 8 * second, true},
		{"expired again", l.expire, 0, 3, 8 * second, false},
		{"answered late", func() { l.answered(c.now(), true) }, 0, 3, 8 * second, false},
		{"a second session", begin(8, 20*second), 8, 4, 20 * second, true},
		{"closed", l.markClosed, 0, 4, 20 * second, true},
		{"connected after that", begin(8, second), 0, 4, 20 * second, true},
		{"expired after that", l.expire, 0, 4, 20 * second, true},
		{"disconnected after that", l.disconnect, 0, 4, 20 * second, true},
		{"closed again", l.markClosed, 0, 4, 20 * second, true},
	} {
		changed, before := l.Changed(), l.Epoch()
		tc.do()
		select {
		case <-changed:
			if !tc.changed {
				t.Errorf("%s: a change is reported", tc.name)
			}
		default:
			if tc.changed {
				t.Errorf("%s: no change is reported", tc.name)
			}
		}
		if l.Session() != tc.session || l.Epoch() != tc.epoch || l.Timeout() != tc.timeout {
			t.Errorf("%s: session %d, epoch %d, timeout %v; want %d, %d, %v",
				tc.name, l.Session(), l.Epoch(), l.Timeout(), tc.session, tc.epoch, tc.timeout)
		}
		for _, s := range []int64{0, 7, 8} {
			want := s != 0 && s == tc.session
			if l.Alive(s) != want || l.Deadline(s).IsZero() == want {
				t.Errorf("%s: Alive(%d) = %v, Deadline = %v; want %v", tc.name, s, l.Alive(s), l.Deadline(s), want)
			}
		}
		// The quorum creates a session when it gets the request, before the client reads the
		// answer.
		if end := sent.Add(tc.timeout); l.Epoch() > before && tc.session != 0 && l.Deadline(tc.session).After(end) {
			t.Errorf("%s: the deadline is %v after the request", tc.name, l.Deadline(tc.session).Sub(sent))
		}
	}
	if !l.IsClosed() {
		t.Error("not closed")
	}
}

// A stall shows for a minute, however often a program asks meanwhile: several may scrape it. What is
// answered behind the end of the session has no margin.
func TestTheWorstHeartbeatOfTheLastMinute(t *testing.T) {
	l, c := connected(t)
	beat := func(latency time.Duration) {
		sent := c.now()
		c.run(latency)
		l.beaten(sent)
	}
	says := func(latency, margin time.Duration) {
		t.Helper()
		for range 2 {
			if got, left := l.Heartbeat(); got != latency || left != margin {
				t.Errorf("latency %v, margin %v, want %v, %v", got, left, latency, margin)
			}
		}
	}
	says(0, 0)
	beat(time.Second)
	says(time.Second, timeout-time.Second)
	beat(time.Second / 2)
	says(time.Second, timeout-3*time.Second/2)
	c.run(time.Minute - time.Second/2)
	says(time.Second, timeout-3*time.Second/2)
	c.run(1)
	says(time.Second/2, timeout-3*time.Second/2)
	l.markClosed()
	beat(time.Second / 2)
	says(0, 0)
}

// A fakeClock has a wall and a monotonic reading, which tests move apart. A machine that was
// suspended returns such times. No function makes such a time, so the clock writes the monotonic
// reading itself.
type fakeClock struct {
	origin     time.Time
	wall, mono time.Duration
	looked     int
}

func newClock() *fakeClock { return &fakeClock{origin: time.Now()} }

func (c *fakeClock) now() time.Time {
	c.looked++
	t := c.origin.Add(c.wall)
	// time.Time is {wall uint64; ext int64; loc *Location}; ext is the monotonic reading.
	// TestFakeClock checks this.
	ext := (*int64)(unsafe.Add(unsafe.Pointer(&t), 8))
	*ext += int64(c.mono - c.wall)
	return t
}

// run advances both clocks, for a process that runs or is paused.
func (c *fakeClock) run(d time.Duration) { c.wall += d; c.mono += d }

// suspend suspends the machine: CLOCK_MONOTONIC stops.
func (c *fakeClock) suspend(d time.Duration) { c.wall += d }

// step sets the wall clock.
func (c *fakeClock) step(d time.Duration) { c.wall += d }

func TestFakeClock(t *testing.T) {
	c := newClock()
	a := c.now()
	c.run(3 * time.Second)
	c.step(-time.Minute)
	b := c.now()
	if got := b.Sub(a); got != 3*time.Second {
		t.Errorf("monotonic clock ran %v, want 3s", got)
	}
	if got := b.Round(0).Sub(a.Round(0)); got != -57*time.Second {
		t.Errorf("wall clock ran %v, want -57s", got)
	}
}

// Only an answer from the leader, with a quorum, proves that the session is alive.
func TestWhatProvesTheSession(t *testing.T) {
	const noAuth, invalidACL, sessionExpired, sessionMoved, notReadOnly, lost, timedOut, noSession = -102, -114, -112, -118, -119, -4, -7, -12
	all := []int32{0, codeNoNode, noAuth, codeBadVersion, codeNoChildren, codeNodeExists, codeNotEmpty, sessionExpired, invalidACL,
		codeAuthFailed, sessionMoved, notReadOnly, codeThrottled, lost, timedOut, noSession, codeDemandsSASL}
	for op, proving := range map[int32][]int32{
		opMulti:   {0}, // a refusal is in its results
		opCreate:  {0, codeNoNode, codeNodeExists, codeNoChildren, codeBadVersion, codeNotEmpty},
		opDelete:  {0, codeNoNode, codeNodeExists, codeNoChildren, codeBadVersion, codeNotEmpty},
		opSetData: {0, codeNoNode, codeNodeExists, codeNoChildren, codeBadVersion, codeNotEmpty},
		// Any server answers these by itself.
		opExists: {}, opGetData: {}, opGetChildren2: {}, opPing: {}, opSetAuth: {}, opSetWatches: {},
		opRemoveWatches: {}, opSync: {},
	} {
		want := make(map[int32]bool)
		for _, code := range proving {
			want[code] = true
		}
		for _, code := range all {
			if got := proves(op, code); got != want[code] {
				t.Errorf("operation %d, code %d: %v, want %v", op, code, got, want[code])
			}
		}
	}
}

const opSync = 9

// The connection is down since it was lost, and not since the last attempt that failed.
func TestSilenceOfAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f, handshakes := newFakeServer(t), 0
		f.welcome = func(n int64, c net.Conn) bool {
			if handshakes++; n > 1 {
				c.Close()
			}
			return n > 1
		}
		conn, lost := f.start().connect(), time.Now()
		conn.hangUp()
		time.Sleep(10 * time.Second) // virtual
		if since, down := conn.Silence(); !down || since.Sub(lost) > time.Second || handshakes < 3 {
			t.Errorf("down %v since %v after the loss, %d handshakes", down, since.Sub(lost), handshakes)
		}
	})
}
