package wire

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A rewatcher is a server that records how a client sets its watches again after a reconnect. The
// test chooses the answers. On a getACL the server closes the connection.
type rewatcher struct {
	*fakeServer
	sets chan []byte // the requests that set watches again, without their xids
	code func(connection int64, set int64) (code int32, answers bool)
	at   atomic.Int64 // the zxid of the replies to reads; 0: they have none
	nth  atomic.Int64 // of the requests that set watches again
}

func newRewatcher(t *testing.T, code func(connection, set int64) (int32, bool)) (*rewatcher, *Conn) {
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
func cut(t *testing.T, conn *Conn) {
	t.Helper()
	if _, _, err := conn.GetACL("/"); err == nil {
		t.Error("the connection was not cut")
	}
}

func (r *rewatcher) get(t *testing.T, conn *Conn, zxid int64) {
	t.Helper()
	r.at.Store(zxid)
	for range 2 { // the first may be lost with the connection
		if _, _, err := conn.Get("/"); err == nil {
			return
		}
	}
	t.Error("no answer")
}

// When the client sets its watches again it states zxid 0, so the server fires each of them. If the
// server refuses the request, or the connection ends before the answer, the client sends it again
// on the next connection.
func TestWatchesAreSetAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		code    int32
		answers bool
	}{
		"granted":         {0, true},
		"throttled":       {codeThrottled, true},
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
				if _, zxid := r.set(t); zxid != 0 {
					t.Errorf("set for changes since %d, want 0", zxid)
				}
				r.get(t, conn, 2000)
				if tc.code == 0 {
					cut(t, conn) // otherwise the packetConn ends the connection
				}
				if _, zxid := r.set(t); zxid != 0 {
					t.Errorf("set again for changes since %d, want 0", zxid)
				}
				r.get(t, conn, 3000)
				if n := r.handshakes.Load(); n != 3 {
					t.Errorf("%d handshakes, want 3", n)
				}
			})
		})
	}
}

// A server that lags behind what the client has read must refuse the session. So the handshake
// states the zxid of the last reply, although the client reads only zeros.
func TestTheHandshakeStatesTheLastZxid(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r, conn := newRewatcher(t, func(_, _ int64) (int32, bool) { return 0, true })
		for zxid := int64(1000); zxid <= 3000; zxid += 1000 {
			r.get(t, conn, zxid)
			cut(t, conn)
			time.Sleep(100 * time.Millisecond) // virtual: longer than any pause between two handshakes
			if stated := r.zxid.Load(); stated != zxid {
				t.Errorf("the client resumes its session at %d, want %d", stated, zxid)
			}
		}
	})
}

// The servers may have been set up again with an empty state. They would refuse a client that
// states the zxid of its last session. So the handshake of a new session states 0.
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
	})
}

// The replies to credentials, which come first on each connection, have no zxid.
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
		t.Cleanup(func() { _ = conn.Close() })
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

// RemoveWatches is sent again until the server does not throttle it.
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
		l := f.start().connect()
		if _, err := l.WatchNodes([]string{"/a"}, "/a-mark"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// Connect sends a read to check whether the server refuses the credentials. It repeats the read if
// an overloaded server drops it.
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
