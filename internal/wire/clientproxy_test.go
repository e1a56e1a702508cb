package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// The first call of Client in each state of the connection returns at once, and the client works as
// soon as the connection does. Close ends both within a second, and the calls of the client.
func TestTheFirstClient(t *testing.T) {
	for name, c := range map[string]struct {
		state func(f *fakeServer, conn *Conn) (mend func())
		works bool // at once
	}{
		"up": {func(*fakeServer, *Conn) func() { return func() {} }, true},
		"down": {func(f *fakeServer, conn *Conn) func() {
			f.away.Store(true)
			conn.hangUp()
			return func() { f.away.Store(false); _ = conn.SetServers([]string{"zk2:2181"}) }
		}, false},
		"expired": {func(f *fakeServer, conn *Conn) func() {
			f.expired.Store(true)
			f.mute.Store(true)
			conn.hangUp()
			return func() { f.mute.Store(false) }
		}, false},
		"moving": {func(f *fakeServer, conn *Conn) func() {
			f.silent.Store(true)
			conn.Send(AnySession, GetData("/")) // the move waits for the answer
			synctest.Wait()
			go conn.SetServers([]string{"zk2:2181"})
			return func() { f.silent.Store(false) }
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t).start()
				conn := f.connect(WithDialer(f.dialAny))
				mend := c.state(f, conn)
				time.Sleep(time.Millisecond) // virtual
				began := time.Now()
				client := conn.Client()
				if took := time.Since(began); took > 0 {
					t.Errorf("Client took %v", took)
				}
				if id := client.SessionID(); (id == fakeSession) != c.works {
					t.Errorf("session %#x", id)
				}
				got := make(chan error, 1)
				go func() { _, _, err := client.Get("/"); got <- err }()
				time.Sleep(100 * time.Millisecond) // virtual
				mend()
				ok(t, <-got)
				time.Sleep(time.Second) // virtual: until the client has left the server of before a move
				if client.SessionID() != conn.Session() || client.State() != zk.StateHasSession || client.Server() != conn.Server() || conn.Client() != client {
					t.Errorf("session %#x is %v, at %s", client.SessionID(), client.State(), client.Server())
				}
				f.silent.Store(true)
				go func() { _, _, err := client.Get("/"); got <- err }()
				time.Sleep(time.Millisecond) // virtual
				began = time.Now()
				conn.Close()
				if took := time.Since(began); took > closeLimit {
					t.Errorf("Close took %v", took)
				}
				if err := <-got; err != zk.ErrConnectionClosed && err != zk.ErrClosing {
					t.Error(err)
				}
				synctest.Wait()
				if client.State() != zk.StateDisconnected {
					t.Errorf("the client is %v", client.State())
				}
			})
		})
	}
	t.Run("closed", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			conn := newFakeServer(t).start().connect()
			ok(t, conn.Close())
			if _, _, err := conn.Client().Get("/"); err != zk.ErrConnectionClosed && err != zk.ErrClosing {
				t.Error(err)
			}
		})
	})
}

// Close never meets go-zookeeper between two pipes, where its Close would take a second: neither
// after a loss nor after a move.
func TestCloseRightAfterALoss(t *testing.T) {
	for i, yields := range []int{0, 1, 2, 3, 5, 8, 13, 21, 34, 0, 1, 2, 3, 5, 8, 13, 21, 34} {
		inBubble(t, func(t *testing.T) {
			f := newFakeServer(t).start()
			conn := f.connect(WithDialer(f.dialAny))
			conn.Client()
			if i%2 == 0 {
				conn.hangUp()
			} else {
				ok(t, conn.SetServers([]string{"zk2:2181"}))
			}
			for range yields {
				runtime.Gosched()
			}
			began := time.Now()
			conn.Close()
			if took := time.Since(began); took > 0 {
				t.Errorf("Close took %v", took)
			}
		})
	}
}

// A program that closes its client closes the Conn, whose holders are notified first; also right
// after a loss.
func TestTheProgramClosesItsClient(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			f := newFakeServer(t).start()
			conn := f.connect()
			var told monitor
			conn.Monitored(func() Monitor { return &told })
			client, began := conn.Client(), time.Now()
			if lost {
				conn.hangUp()
			}
			client.Close()
			if lost {
				time.Sleep(time.Millisecond) // virtual
			} else if all := f.written(began); time.Since(began) > 0 || len(all) == 0 || all[len(all)-1].op != opClose {
				t.Errorf("after %v it has sent %v", time.Since(began), all)
			}
			if !conn.IsClosed() || conn.Session() != 0 || told.checks.Load() == 0 {
				t.Errorf("lost %v: it is open", lost)
			}
			ok(t, conn.Close())
		})
	}
}

// A Conn without a Client has one goroutine, and its heap is small.
func TestWhatAConnectionTakes(t *testing.T) {
	const conns = 50
	var f *fakeServer
	inBubble(t, func(t *testing.T) {
		f = newFakeServer(t).start()
		f.connect().Close() // warms up
		heap := func() int64 {
			var m runtime.MemStats
			synctest.Wait()
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		var all []*Conn
		for range conns {
			all = append(all, f.connect())
		}
		each := (heap() - before) / conns
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		clients, theirs := 0, 0
		for s := range strings.SplitSeq(string(stacks), "\n\n") {
			switch {
			case strings.Contains(s, "wire.(*fakeServer)"):
			case strings.Contains(s, "wire.(*Conn).run"):
				clients++
			case strings.Contains(s, "wire.(*Conn)") || strings.Contains(s, "go-zookeeper/zk."):
				theirs++
			}
		}
		t.Logf("%d bytes each, with the fake server's end", each)
		if each > 60<<10 || clients != conns || theirs > 0 {
			t.Errorf("%d connections: %d bytes each, %d goroutines and %d others", conns, each, clients, theirs)
		}
		runtime.KeepAlive(all)
	})
}

// The session is over during a move. What the program asks for before its client knows it is not
// done in the next session.
func TestARequestOfTheProgramBelongsToItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn := f.connect(WithDialer(f.dialAny))
		client := conn.Client()
		f.expired.Store(true)
		ok(t, conn.SetServers([]string{"zk2:2181"}))
		_, _, err := client.Get("/")
		if conn.Session() == fakeSession || err == nil {
			t.Errorf("session %#x: %v", conn.Session(), err)
		}
	})
}

// The server receives the requests of the program and those of the locks in one order: that in
// which they began, if one begins when another is answered, and each side's own order. That holds
// also while the session moves.
func TestTheOrderOfRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn := f.connect(WithDialer(f.dialAny))
		client := conn.Client()
		from := time.Now()
		for i := range 20 {
			if i == 10 {
				go conn.SetServers([]string{"zk2:2181"})
			}
			path := fmt.Sprintf("/%02d", i)
			var err error
			if i%2 == 0 {
				_, _, err = client.Get(path)
			} else {
				for err = ErrUnsent; err == ErrUnsent; {
					_, err = conn.Ask(t.Context(), AnySession, GetData(path))
				}
			}
			must(t, err)
		}
		var paths []string
		for _, w := range f.written(from) {
			if w.op == opGetData {
				paths = append(paths, string(w.body[12:15]))
			}
		}
		if !slices.IsSorted(paths) || len(paths) != 20 {
			t.Errorf("the order is %q", paths)
		}
	})
}

// Credentials that the program adds begin each later connection, ahead of all requests, and only
// once. If a server refuses them, the connection ends, and they are sent again.
func TestCredentialsOfTheProgram(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var refuse atomic.Bool
		f.answer = func(n int64, c net.Conn, xid, op int32) bool {
			if op == opSetAuth && refuse.Load() {
				c.Write(coded(xid, codeAuthFailed))
				c.Close()
			}
			return op == opSetAuth && refuse.Load()
		}
		conn := f.start().connect(WithDigestAuth("ann", "secret"))
		client := conn.Client()
		refuse.Store(true)
		if err := client.AddAuth("digest", []byte("eve:wrong")); err != zk.ErrAuthFailed {
			t.Error(err)
		}
		refuse.Store(false)
		time.Sleep(time.Second) // virtual: the server has closed the connection
		ok(t, client.AddAuth("digest", []byte("bob:secret")))
		conn.mu.Lock()
		if n := len(conn.credentials); n != 2 { // or go-zookeeper sends them, when the locks' requests have been sent
			t.Errorf("%d credentials", n)
		}
		conn.mu.Unlock()
		for range 3 {
			time.Sleep(time.Second) // virtual
			from := time.Now()
			conn.hangUp()
			for {
				if _, err := conn.Ask(t.Context(), AnySession, GetData("/")); err == nil {
					break
				}
				time.Sleep(time.Millisecond) // virtual
			}
			if _, _, err := client.Get("/"); err != nil {
				t.Error(err)
			}
			var ops []int32
			for _, w := range f.written(from)[1:] { // behind the handshake
				ops = append(ops, w.op)
				if bytes.Contains(w.body, []byte("eve")) {
					t.Error("credentials that were refused are sent again")
				}
			}
			if !slices.Equal(ops, []int32{opSetAuth, opSetAuth, opGetData, opGetData}) {
				t.Errorf("requests %v", ops)
			}
		}
		refuse.Store(true)
		conn.hangUp()
		time.Sleep(10 * time.Second) // virtual
		if !errors.Is(conn.LastFailure(), zk.ErrAuthFailed) || conn.Up() != 0 {
			t.Error(conn.LastFailure())
		}
		refuse.Store(false)
		time.Sleep(3 * time.Second) // virtual
		if _, _, err := client.Get("/"); err != nil || conn.LastFailure() != nil {
			t.Errorf("%v, %v", err, conn.LastFailure())
		}
	})
}

// The requests that set go-zookeeper's watches again state the zxid up to which the watches miss
// nothing. It moves on with the replies, but not while some of the watches are not set.
func TestTheZxidOfWatches(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var zxid atomic.Int64
		var cut atomic.Bool
		var mu sync.Mutex
		var stated []int64
		f.answer = func(n int64, c net.Conn, xid, op int32) bool {
			mu.Lock()
			defer mu.Unlock()
			if op == opSetWatches {
				packets := f.written(time.Time{})
				stated = append(stated, int64(binary.BigEndian.Uint64(packets[len(packets)-1].body[8:])))
				if cut.Load() && len(stated)%2 == 0 { // of each two requests, the second
					c.Close()
					return true
				}
			}
			reply := header(xid)
			binary.BigEndian.PutUint64(reply[4:], uint64(zxid.Load()))
			switch op {
			case opGetData:
				reply = slices.Concat(reply, word(0), make([]byte, 68))
			case opSetWatches:
			default:
				return false
			}
			c.Write(frame(reply))
			return true
		}
		conn := f.start().connect()
		client := conn.Client()
		get := func() {
			for _, _, err := client.Get("/"); err != nil; _, _, err = client.Get("/") {
				time.Sleep(time.Millisecond) // virtual
			}
			time.Sleep(10 * time.Millisecond) // virtual
		}
		states := func(want ...int64) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(stated, want) {
				t.Errorf("states %d, want %d", stated, want)
			}
			stated = nil
		}
		zxid.Store(10)
		get()
		conn.hangUp()
		get()
		states() // there are no watches
		zxid.Store(20)
		client.GetW("/w")
		zxid.Store(30)
		get()
		ok(t, client.AddAuth("digest", []byte("ann:secret"))) // whose answer has zxid 0
		conn.hangUp()
		get()
		states(30)
		zxid.Store(25) // a server that lags behind a little
		get()
		conn.hangUp()
		get()
		states(25)

		// More watches than fit into one request, and the connection is lost between two requests.
		zxid.Store(40)
		for i := range 30 {
			client.GetW(fmt.Sprintf("/%s%d", strings.Repeat("l", 5000), i))
		}
		cut.Store(true)
		zxid.Store(50)
		conn.hangUp()
		time.Sleep(time.Second / 4) // virtual
		zxid.Store(60)
		cut.Store(false)
		get()
		mu.Lock()
		if len(stated) < 4 || slices.Max(stated) != 40 {
			t.Errorf("states %d, want 40 until all watches are set", stated)
		}
		stated = nil
		mu.Unlock()
		conn.hangUp()
		get()
		states(60, 60)

		// The ensemble was restored from a backup, and the session is over.
		f.expired.Store(true)
		zxid.Store(7)
		conn.hangUp()
		get()
		client.GetW("/w")
		conn.hangUp()
		get()
		states(7)
	})
}

// A watch survives reconnects, and fires by the event alone. When the session is over, it fires
// with EventNotWatching.
func TestWatchesOfTheProgram(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var server atomic.Pointer[net.Conn]
		f.answer = func(_ int64, c net.Conn, _, op int32) bool { server.Store(&c); return false }
		conn := f.start().connect()
		client := conn.Client()
		var events []<-chan zk.Event
		for _, path := range []string{"/a", "/b"} {
			_, _, e, err := client.GetW(path)
			must(t, err)
			events = append(events, e)
		}
		for range 5 {
			conn.hangUp()
			time.Sleep(time.Second) // virtual
		}
		if len(events[0])+len(events[1]) > 0 {
			t.Error("a watch has fired without a change")
		}
		(*server.Load()).Write(frame(append(header(xidEvent), encode(nil, int32(zk.EventNodeDataChanged), int32(3), "/a")...)))
		if e := <-events[0]; e.Type != zk.EventNodeDataChanged || e.Path != "/a" {
			t.Errorf("%+v", e)
		}
		f.expired.Store(true)
		conn.hangUp()
		if e := <-events[1]; e.Type != zk.EventNotWatching || e.Err != zk.ErrSessionExpired {
			t.Errorf("%+v", e)
		}
	})
}

// A server demands SASL by code -124, and drops requests by -127: the program's calls return errors
// by which it knows that, as the locks' requests do. If it refuses the end of the session, Close says so.
func TestCodesThatGoZookeeperDoesNotKnow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		var code atomic.Int32
		f.answer = func(n int64, c net.Conn, xid, op int32) bool {
			if op != opPing {
				c.Write(coded(xid, code.Load()))
			}
			return op != opPing
		}
		conn := f.start().connect()
		client := conn.Client()
		code.Store(codeDemandsSASL)
		if _, _, err := client.Get("/"); err != zk.ErrAuthFailed || !errors.Is(conn.LastFailure(), err) {
			t.Errorf("%v, %v", err, conn.LastFailure())
		}
		if _, err := conn.Ask(t.Context(), AnySession, GetData("/")); !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "demands") {
			t.Error(err)
		}
		code.Store(codeThrottled)
		if _, _, err := client.Get("/"); !Overloaded(err) {
			t.Error(err)
		}
		if time.Sleep(timeout); !conn.Dropped.Load() { // virtual: pings are answered
			t.Error("a ping counts as a request that was not dropped")
		}
		if err := conn.Close(); err != errUnconfirmed {
			t.Error(err)
		}
	})
}

// Whatever go-zookeeper or a program writes into a pipe, and whatever a server answers, nothing
// panics, and go-zookeeper reads whole frames.
func FuzzPipe(f *testing.F) {
	request := func(xid, op int32, body ...byte) []byte { return frame(slices.Concat(word(xid), word(op), body)) }
	f.Add(request(1, opGetData, 0, 0, 0, 1, '/', 1), frame(header(1)))
	f.Add(request(1, opSetWatches, make([]byte, 20)...), frame(append(header(1)[:12], word(codeThrottled)...)))
	f.Add(request(1, opSetAuth), frame(header(1)))
	f.Add(request(-2, opPing), frame(header(xidEvent)))
	f.Add(request(7, opClose), []byte{})
	f.Fuzz(func(t *testing.T, said, answered []byte) {
		if len(said) < lengthSize+8 || int(int32At(said, 0)) != len(said)-lengthSize || int32At(said, 8) == opClose {
			return // go-zookeeper writes whole requests
		}
		if int32At(said, 8) == opSetWatches && len(said) < lengthSize+8+8 {
			return
		}
		c := newConn([]string{"zk:1"}, 4*time.Second, settings{})
		defer c.leave()
		c.xid = 0
		p := newPacketConn(c, script{bytes.NewReader(slices.Concat(handshakeFrame(fakeSession, 4000, 16), answered))}, "zk:1", "zk:1", time.Second, nil)
		c.current = p
		must(t, p.shakeHands())
		x := &client{conn: c, up: make(chan struct{}, 1), over: make(chan struct{})}
		c.guest = x
		conn, err := x.dial("", "zk:1", 0)
		must(t, err)
		q := conn.(*pipe)
		hello := c.hello()
		binary.BigEndian.PutUint64(hello[sessionInRequest:], 0)
		q.Write(hello)
		q.Write(said)
		for sends := true; sends; runtime.Gosched() {
			c.mu.Lock()
			sends = len(p.queue) > 0
			c.mu.Unlock()
		}
		for p.serve() == nil {
		}
		p.fail()
		all, err := io.ReadAll(q)
		for n := 0; len(all) > 0; n++ {
			if len(all) < lengthSize || int(int32At(all, 0)) > len(all)-lengthSize || n > 0 && int32At(all, 0) < replyHeader {
				t.Fatalf("frame %d is %x, %v", n, all, err)
			}
			all = all[lengthSize+int32At(all, 0):]
		}
	})
}

// The connection breaks while the first Client is made, and once more: the client notices both. In the
// copy of the library that yields (make sim), 200 tries meet each moment.
func TestTheFirstClientDuringALoss(t *testing.T) {
	for range 200 {
		inBubble(t, func(t *testing.T) {
			conn := newFakeServer(t).start().connect()
			go conn.hangUp()
			client := conn.Client()
			time.Sleep(time.Second) // virtual
			conn.hangUp()
			time.Sleep(time.Second) // virtual
			done := make(chan error, 1)
			go func() {
				_, _, err := client.Exists("/")
				done <- err
			}()
			conn.hangUp()
			select {
			case <-done:
			case <-time.After(time.Minute): // virtual
				t.Fatal("a request is not answered")
			}
		})
	}
}
