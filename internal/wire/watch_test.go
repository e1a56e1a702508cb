package wire

import (
	"bytes"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// runningConn is a packetConn with a session.
func runningConn() (*packetConn, *recordedConn) {
	c := &recordedConn{}
	p := newPacketConn(&Conn{state: newState(time.Now)}, c, "", "", 0, nil)
	p.phase, p.conn.current = running, p
	return p, c
}

// watch has the server set new watches.
func (p *packetConn) watch(paths []string, marker string) (all []*Watch) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	all = p.watchNodes(paths, marker)
	p.watches.setOver(all, nil)
	return all
}

// fires has the packetConn receive an event.
func (p *packetConn) fires(e zk.EventType, path string) {
	_ = p.event(append(make([]byte, lengthSize+replyHeader), encode(nil, int32(e), int32(zk.StateConnected), path)...))
}

// live returns how many goroutines wait for a watch.
func (w *Watch) live() (n int) {
	w.on.conn.mu.Lock()
	defer w.on.conn.mu.Unlock()
	return len(w.bells)
}

func TestWaitersOfTwoWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := runningConn()
		all := p.watch([]string{"/a", "/b"}, "")
		waiting := func(want ...int) {
			t.Helper()
			synctest.Wait()
			for i, w := range all {
				if n := w.live(); n != want[i] {
					t.Errorf("%d wait for %s, want %d", n, w.Path, want[i])
				}
			}
		}
		woken := make(chan bool, 4)
		wait := func(ctx context.Context, late <-chan time.Time, watches ...*Watch) {
			go func() { woken <- Wait(ctx, late, watches...) }()
		}
		ctx, cancel := context.WithCancel(t.Context())
		late := make(chan time.Time)
		wait(ctx, nil, all...)
		wait(t.Context(), late, all[0], nil)
		for range 2 {
			wait(t.Context(), nil, all...)
		}
		waiting(4, 3)
		cancel()
		waiting(3, 2)
		close(late)
		waiting(2, 2)
		for range 2 {
			if <-woken {
				t.Error("woken without an event")
			}
		}
		p.fires(zk.EventNodeDeleted, "/b")
		waiting(0, 0)
		for range 2 {
			if !<-woken {
				t.Error("not woken by the event")
			}
		}
		if !Wait(t.Context(), nil, all...) {
			t.Error("a watch that has fired before does not wake")
		}
		if e, fired := all[1].Fired(); !fired || e.Type != zk.EventNodeDeleted || e.Path != "/b" {
			t.Errorf("fired: %v, %+v", fired, e)
		}
	})
}

// The watch on a node that is held for long does not keep the bells of waiters that have left.
func TestBellsThatWereLeftAreRemoved(t *testing.T) {
	t.Parallel()
	p, _ := runningConn()
	all := p.watch([]string{"/a"}, "")
	stays := NewBell(all...)
	for range 10_000 {
		NewBell(all...).Leave()
	}
	if n := len(all[0].bells); n > 1 {
		t.Errorf("%d bells", n)
	}
	p.fires(zk.EventNodeDeleted, "/a")
	if !all[0].Drop() || !stays.Wait(t.Context(), nil) {
		t.Error("not fired, or not woken")
	}
}

// A watch fires once, and then serves no other waiter.
func TestAWatchThatHasFiredIsNotKept(t *testing.T) {
	t.Parallel()
	p, _ := runningConn()
	all := p.watch([]string{"/a", "/b", "/c"}, "/a-marker")
	p.conn.mu.Lock()
	all = append(all, p.addWatch("/b", "", onChildren)) // which a change of its data does not fire
	p.conn.mu.Unlock()
	p.fires(zk.EventNodeDeleted, "/a-marker") // nor this the watch with the marker
	p.fires(zk.EventNodeCreated, "/a-marker")
	p.fires(zk.EventNodeDeleted, "/a")
	p.fires(zk.EventNodeDataChanged, "/b")
	all[2].Miss()
	p.fires(zk.EventNodeDeleted, "/c")
	p.fires(zk.EventNodeChildrenChanged, "/b")
	for i, want := range []zk.EventType{zk.EventNodeCreated, zk.EventNodeDataChanged, 0, zk.EventNodeChildrenChanged} {
		if e, fired := all[i].Fired(); !fired || e.Type != want {
			t.Errorf("watch %d: %v, %+v, want %v", i, fired, e, want)
		}
	}
	if n := len(p.watches); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// recordedConn is a network connection that records what is written.
type recordedConn struct {
	net.Conn
	packets [][]byte
}

func (c *recordedConn) Write(p []byte) (int, error) {
	c.packets = append(c.packets, p)
	return len(p), nil
}

func (c *recordedConn) Close() error { return nil }

// A directory that is created between the two requests is read again. If the server refuses the
// second, the caller receives the error.
func TestAMissingDirectory(t *testing.T) {
	for code, want := range map[int32]struct {
		reads int
		err   error
	}{0: {2, nil}, codeNoNode: {1, nil}, codeThrottled: {1, Throttled}} {
		inBubble(t, func(t *testing.T) {
			f, read := newFakeServer(t), 0
			f.answer = func(_ int64, c net.Conn, xid, op int32) bool {
				switch {
				case op == opExists && code != 0:
					c.Write(coded(xid, code))
				case op == opGetChildren2 && read == 0:
					read++
					c.Write(coded(xid, codeNoNode))
				case op == opGetChildren2:
					read++
					c.Write(frame(append(encode(header(xid), []string{"a", "b"}[:read-1]), make([]byte, 68)...)))
				default:
					return false
				}
				return true
			}
			conn := f.start().connect()
			w, err := conn.WatchChildren(t.Context(), AnySession, "/d")
			if err != want.err || read != want.reads || read == 2 && w.Only != "a" {
				t.Errorf("code %d: %d reads, %+v, %v", code, read, w, err)
			}
			if read = 2; code == 0 {
				if w, err = conn.WatchChildren(t.Context(), AnySession, "/two"); err != nil || w.Only != "" {
					t.Errorf("%+v, %v", w, err)
				}
			}
		})
	}
}

// An event of an earlier watch may fire a watch before the request that sets it has left. Then the
// server sets the watch on the marker although the node is gone.
func TestAMarkerOfANodeThatIsGoneIsUnwatchedAfterTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, c := runningConn()
		p.conn.mu.Lock()
		p.watchNodes([]string{"/a"}, "/a-released")
		p.conn.mu.Unlock()
		p.fires(zk.EventNodeDeleted, "/a")
		synctest.Wait()
		if len(c.packets) != 1 {
			t.Errorf("sent %q, want the request that sets the watch", c.packets)
		}
		_ = p.take(p.conn.xid, 0, Reply{}, nil, nil)
		synctest.Wait()
		if len(c.packets) != 2 || !bytes.Contains(c.packets[1], []byte("/a-released")) {
			t.Errorf("sent %q, want one request that removes the watch on the marker", c.packets)
		}
	})
}
