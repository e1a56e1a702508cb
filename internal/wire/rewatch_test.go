package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
)

// A rewatcher is a server that records how a client sets its watches again after a reconnect, and
// answers as the test says. A getACL ends the connection.
type rewatcher struct {
	*fakeServer
	sets chan []byte // the requests that set watches again, without their xids
	code func(connection int64, set int64) (code int32, answers bool)
	at   atomic.Int64 // the zxid of the replies to reads; 0: they have none
	nth  atomic.Int64 // of the requests that set watches again
}

func newRewatcher(t *testing.T, code func(connection, set int64) (int32, bool)) (*rewatcher, *zk.Conn) {
	r := &rewatcher{fakeServer: newFakeServer(t), sets: make(chan []byte, 10), code: code}
	r.packet = func(p []byte) {
		if int32At(p, 4) == opSetWatches && int32At(p, 0) > 0 {
			r.sets <- slices.Clone(p[4:])
		}
	}
	r.answer = func(n int64, c net.Conn, xid, op int32) bool {
		switch op {
		case opSetWatches:
			if code, answers := r.code(n, r.nth.Add(1)); answers {
				c.Write(frame(slices.Concat(word(xid), make([]byte, 8), word(code))))
			}
		case opGetData:
			reply := binary.BigEndian.AppendUint64(word(xid), uint64(r.at.Load()))
			c.Write(frame(slices.Concat(reply, word(0), word(0), make([]byte, 68))))
		case opGetACL:
			c.Close()
		default:
			return false
		}
		return true
	}
	conn := r.start().connect()
	if _, _, err := conn.Get("/"); err != nil {
		t.Fatal(err)
	}
	return r, conn
}

// set returns the next request that sets watches again, and the zxid in it.
func (r *rewatcher) set(t *testing.T) (p []byte, zxid int64) {
	t.Helper()
	select {
	case p = <-r.sets:
		return p, int64At(p, 4)
	case <-time.After(10 * time.Second):
		t.Fatal("the watches are not set again")
		return nil, 0
	}
}

// cut makes the server end the connection.
func cut(t *testing.T, conn *zk.Conn) {
	t.Helper()
	if _, _, err := conn.GetACL("/"); err == nil {
		t.Error("the connection was not cut")
	}
}

func (r *rewatcher) get(t *testing.T, conn *zk.Conn, zxid int64) {
	t.Helper()
	r.at.Store(zxid)
	for range 2 { // the first may go with the connection
		if _, _, err := conn.Get("/"); err == nil {
			return
		}
	}
	t.Error("no answer")
}

// An overloaded server drops the request by which the client sets its watches again. The client
// would only log that, and wait for events that no server will send.
func TestWatchesThatAreThrottledAreSetAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r, conn := newRewatcher(t, func(_, set int64) (int32, bool) {
			if set <= 2 {
				return codeThrottled, true
			}
			return 0, true
		})
		r.get(t, conn, 1000)
		if _, _, _, err := conn.GetW("/a"); err != nil {
			t.Fatal(err)
		}
		cut(t, conn)
		first, zxid := r.set(t)
		r.get(t, conn, 2000) // the client would ask for changes since then
		for range 2 {
			if p, _ := r.set(t); !slices.Equal(p, first) || zxid != 1000 {
				t.Errorf("set with % x, then with % x", first, p)
			}
		}
		r.get(t, conn, 3000)
		if n := r.handshakes.Load(); n != 2 {
			t.Errorf("%d handshakes, want 2: nothing is wrong with the connection", n)
		}
		cut(t, conn)
		if _, zxid := r.set(t); zxid != 3000 {
			t.Errorf("watches that were set are set again for changes since %d, want 3000", zxid)
		}
	})
}

// A server that refuses the watches in another way is of no use to this client: the connection
// ends, and the next one sets them for all changes since the last connection that had them.
func TestWatchesThatAreRefusedAreSetAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		code    int32
		answers bool
	}{
		"refused":         {-1, true},
		"another refusal": {codeUnimplemented, true},
		"never answered":  {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				r, conn := newRewatcher(t, func(connection, _ int64) (int32, bool) {
					if connection == 2 {
						return tc.code, tc.answers
					}
					return 0, true
				})
				r.get(t, conn, 1000)
				if _, _, _, err := conn.GetW("/a"); err != nil {
					t.Fatal(err)
				}
				cut(t, conn)
				if _, zxid := r.set(t); zxid != 1000 {
					t.Errorf("set for changes since %d", zxid)
				}
				r.get(t, conn, 2000) // the client takes that for the last zxid it has received
				if !tc.answers {
					cut(t, conn)
				}
				if _, zxid := r.set(t); zxid != 1000 {
					t.Errorf("set again for changes since %d, want 1000: what happened between is lost", zxid)
				}
				r.get(t, conn, 3000)
				cut(t, conn)
				if _, zxid := r.set(t); zxid != 3000 {
					t.Errorf("watches that were set are set again for changes since %d, want 3000", zxid)
				}
			})
		})
	}
}

// The request that sets the watches again waits in the client's queue behind another. However long
// it waits, and whatever the client is answered meanwhile, it asks for the changes since the
// previous connection. If the connection ends before the request is sent, so does the next one.
func TestWatchesThatAreSetAgainLate(t *testing.T) {
	for _, sent := range []bool{true, false} {
		t.Run(fmt.Sprintf("sent=%v", sent), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				r, conn := newRewatcher(t, func(_, _ int64) (int32, bool) { return 0, true })
				r.get(t, conn, 1000)
				if _, _, _, err := conn.GetW("/a"); err != nil {
					t.Fatal(err)
				}
				r.at.Store(2000)
				admit, open := make(chan struct{}), make(chan struct{})
				second := make(chan net.Conn, 1)
				r.welcome = func(n int64, c net.Conn) bool {
					if n == 2 {
						second <- c
						<-admit
					}
					return false
				}
				r.wrap = func(c net.Conn) net.Conn { return &stuck{Conn: c, open: open, closed: make(chan struct{})} }
				cut(t, conn)
				time.Sleep(100 * time.Millisecond) // virtual: the client waits for the answer to its handshake
				answered, asked := make(chan error, 1), make(chan error, 1)
				go func() { _, _, err := conn.Get("/"); answered <- err }()
				time.Sleep(time.Millisecond) // virtual: in this order
				go func() { _, err := conn.Set("/", nil, -1); asked <- err }()
				time.Sleep(time.Millisecond) // virtual: both are in the queue
				close(admit)
				if err := <-answered; err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // virtual: longer than any reply is on its way
				if sent {
					close(open)
				} else {
					(<-second).Close()
				}
				<-asked
				if _, zxid := r.set(t); zxid != 1000 {
					t.Errorf("set again for changes since %d, want 1000: what happened between is lost", zxid)
				}
				seen := int64(1000)
				if !sent {
					seen = 2000 // on the second connection
				}
				if zxid := r.zxid.Load(); zxid != seen {
					t.Errorf("the client resumes its session at %d, want %d: a server that is behind may take it", zxid, seen)
				}
			})
		})
	}
}

// A new session may be one of servers that were set up again, and refuse a client that has seen
// more than they did. What the last session has seen does not count.
func TestANewSessionHasSeenNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r, conn := newRewatcher(t, func(_, _ int64) (int32, bool) { return 0, true })
		r.get(t, conn, 1000)
		r.welcome = func(n int64, c net.Conn) bool {
			if n == 2 {
				c.Write(handshakeFrame(0, 0, 16))
				c.Close()
			}
			return n == 2
		}
		for want := int64(3); want <= 4; want++ { // the new session, and its next connection
			cut(t, conn)
			time.Sleep(100 * time.Millisecond) // virtual: longer than any pause between two handshakes
			if n, zxid := r.handshakes.Load(), r.zxid.Load(); n != want || zxid != 0 {
				t.Errorf("handshake %d states %d, want %d to state 0", n, zxid, want)
			}
		}
		r.get(t, conn, 500)
		if _, _, _, err := conn.GetW("/a"); err != nil {
			t.Fatal(err)
		}
		cut(t, conn)
		if _, zxid := r.set(t); zxid != 500 {
			t.Errorf("set again for changes since %d, want 500", zxid)
		}
	})
}

// A stuck connection sends no setData, and nothing behind it, before open is closed.
type stuck struct {
	net.Conn
	open, closed chan struct{}
	once         sync.Once
}

func (c *stuck) Write(p []byte) (int, error) {
	if _, op := request(p); op == opSetData {
		select {
		case <-c.open:
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Write(p)
}

func (c *stuck) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// rewatching plays what the client and the servers do on one connection after another.
type rewatching struct {
	c *client
	w *packetConn
}

func newRewatching() *rewatching {
	return &rewatching{c: newClient([]string{"zk:2181"}, time.Second, settings{})}
}

// begin begins a connection, before which the last reply had a zxid.
func (r *rewatching) begin(zxid int64, resumes bool) {
	r.c.zxid.Store(zxid)
	r.w = newPacketConn(r.c, nil, "zk:2181", time.Second)
	r.w.phase = running
	r.c.current = r.w
	if resumes {
		r.w.since = r.c.resumed()
	}
}

// set sends a SetWatches, and returns since when it wants changes.
func (r *rewatching) set(size int) int64 {
	p := slices.Concat(word(int32(16+size)), word(1), word(opSetWatches), make([]byte, 8+size))
	return int64At(r.w.note(p), zxidInSetWatches)
}

func (r *rewatching) granted(t *testing.T) {
	if forClient, err := r.w.rewatched(packet{}, 0); !forClient || err != nil {
		t.Errorf("granted: %v, %v", forClient, err)
	}
}

// A request that is granted need not be all that the client asks for. One of the previous
// connection may still be in its queue, and be sent beside that of this one, which has watches that
// the other has not, or instead of it. And the client sets very many watches again by several
// requests, each when the previous one is answered.
func TestWatchesAreSetAgainWhenAllRequestsAreAnswered(t *testing.T) {
	const small, large = 100, mostRewatched - 1000
	sends := func(sizes ...int) []int { return sizes }
	for name, tc := range map[string]struct {
		first, second     []int // what the client sends on two connections
		firstOK, secondOK int   // how many of them are granted
		dropped           bool  // the client sends one more when the first connection has ended
		want              int64
	}{
		"all of one":     {sends(small), nil, 1, 0, false, 2000},
		"all of several": {sends(large, large, small), nil, 3, 0, false, 2000},
		"one of two":     {sends(small, small), nil, 1, 0, false, 1000},
		"one of several": {sends(large), nil, 1, 0, false, 1000},
		"the first one later, and not the second": {nil, sends(small), 0, 1, false, 1000},
		"both later":                               {nil, sends(small, small), 0, 2, false, 3000},
		"both later, one granted":                  {nil, sends(small, small), 0, 1, false, 1000},
		"the last of several later, no others":     {sends(large), sends(small), 1, 1, false, 1000},
		"the last of several later, and the other": {sends(large), sends(small, small), 1, 2, false, 3000},
		"the first one lost, and the second":       {nil, sends(small), 0, 1, true, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRewatching()
			r.begin(500, false)
			r.begin(1000, true)
			on := func(sizes []int, granted int) {
				for _, size := range sizes {
					if since := r.set(size); since != 1000 {
						t.Errorf("set for changes since %d, want 1000", since)
					}
				}
				for range granted {
					r.granted(t)
				}
			}
			on(tc.first, tc.firstOK)
			if tc.dropped {
				r.w.phase = broken
				r.set(small)
			}
			r.begin(2000, true)
			if len(tc.second) > 0 {
				on(tc.second, tc.secondOK)
				r.begin(3000, true)
			}
			if since := r.set(small); since != tc.want {
				t.Errorf("set again for changes since %d, want %d", since, tc.want)
			}
		})
	}
}

// On the first connection of a session the client may be late, and find watches that it has just
// set: nothing was missed before.
func TestWatchesThatAreSetTwiceOnTheFirstConnection(t *testing.T) {
	r := newRewatching()
	r.begin(700, false)
	if since := r.set(100); since != 700 {
		t.Errorf("set for changes since %d, want 700", since)
	}
	r.granted(t)
	r.begin(800, true)
	if since := r.set(100); since != 800 {
		t.Errorf("set again for changes since %d, want 800", since)
	}
	r.granted(t)
	r.begin(900, true)
	if since := r.set(100); since != 900 {
		t.Errorf("set again for changes since %d, want 900", since)
	}
}

// The zxids of a session say nothing in the next: the servers may have been set up again. And the
// client has no watches then.
func TestWatchesOfTheLastSessionAreOver(t *testing.T) {
	r := newRewatching()
	r.begin(1000, true) // which owes a SetWatches
	r.c.expired()
	r.begin(0, false)
	r.begin(5, true)
	if since := r.set(100); since != 5 {
		t.Errorf("set for changes since %d, want 5", since)
	}
	r.granted(t)
	r.begin(6, true)
	if since := r.set(100); since != 6 {
		t.Errorf("set again for changes since %d, want 6", since)
	}
}

// The replies to credentials have no zxid. They are the first on each connection.
func TestRepliesToCredentialsDoNotClearTheZxid(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.answer = func(n int64, c net.Conn, xid, op int32) bool {
			switch op {
			case opGetData:
				c.Write(frame(slices.Concat(word(xid), word(0), word(1000), word(0), word(0), make([]byte, 68))))
			case opSetAuth:
				if n != 2 {
					return false
				}
				c.Write(frame(header(xid)))
				time.Sleep(10 * time.Millisecond) // virtual: the client has read it
				c.Close()
			case opGetACL:
				c.Close()
			default:
				return false
			}
			return true
		}
		conn, err := Connect(context.Background(), []string{f.start().listener.Addr().String()}, 4*time.Second,
			WithDialer(f.dial), WithDigestAuth("ann", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		if _, _, err := conn.Get("/"); err != nil {
			t.Fatal(err)
		}
		cut(t, conn)
		time.Sleep(time.Second) // virtual: longer than any pause between two handshakes
		if n, zxid := f.handshakes.Load(), f.zxid.Load(); n != 3 || zxid != 1000 {
			t.Errorf("handshake %d states %d, want 3 to state 1000", n, zxid)
		}
	})
}

// A mark that is watched no more is removed, however often the server throttles that.
func TestTakingAMarkBackGoesOnWhenThrottled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var asked atomic.Int64
		done := make(chan struct{})
		f.answer = func(_ int64, c net.Conn, xid, op int32) bool {
			switch op {
			case opSetWatches:
				c.Write(frame(slices.Concat(header(xidEvent), word(2), word(3), word(2), []byte("/a"))))
				c.Write(frame(header(xid)))
			case opRemoveWatches:
				if asked.Add(1) <= 2 {
					c.Write(frame(slices.Concat(word(xid), make([]byte, 8), word(codeThrottled))))
				} else {
					c.Write(frame(header(xid)))
					close(done)
				}
			default:
				return false
			}
			return true
		}
		l := liveness.Of(f.start().connect())
		if _, err := l.WatchAll([]string{"/a"}, "/a-mark"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// Connect sends a read to see whether its credentials are refused. An overloaded server is no
// refusal.
func TestConnectGoesOnWhenThrottled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var asked atomic.Int64
		f.answer = func(_ int64, c net.Conn, xid, op int32) bool {
			if op != opExists || asked.Add(1) > 3 {
				return false
			}
			c.Write(frame(slices.Concat(word(xid), make([]byte, 8), word(codeThrottled))))
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := Connect(ctx, []string{f.start().listener.Addr().String()}, 4*time.Second,
			WithDialer(f.dial), WithDigestAuth("ann", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if asked.Load() != 4 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}
