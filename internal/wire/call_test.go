package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// The requests have the same bytes as go-zookeeper's.
func TestRequestsAreTheClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.answer = func(_ int64, c net.Conn, xid, op int32) bool {
			c.Write(coded(xid, codeNoNode))
			return true
		}
		conn := f.start().connect()
		acl := slices.Concat(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "ann", "secret"))
		ops := []any{
			&zk.CheckVersionRequest{Path: "/a", Version: 1},
			&zk.CreateRequest{Path: "/a", Data: []byte("x"), Flags: zk.FlagSequence, Acl: acl},
			&zk.CreateRequest{Path: "/a", Acl: acl},
			&zk.SetDataRequest{Path: "/a", Data: []byte{}, Version: 2},
			&zk.SetDataRequest{Path: "/a", Version: -1},
			&zk.DeleteRequest{Path: "/a", Version: 3},
		}
		for name, c := range map[string]struct {
			request Request
			theirs  func()
		}{
			"create":           {Create("/a", []byte("x"), zk.FlagEphemeral, acl), func() { conn.Client().Create("/a", []byte("x"), zk.FlagEphemeral, acl) }},
			"create, no data":  {Create("/a", nil, 0, acl), func() { conn.Client().Create("/a", nil, 0, acl) }},
			"delete":           {Delete("/a", -1), func() { conn.Client().Delete("/a", -1) }},
			"read":             {GetData("/a"), func() { conn.Client().Get("/a") }},
			"read and watch":   {read(opGetData, "/a", true), func() { conn.Client().GetW("/a") }},
			"exists":           {Exists("/a"), func() { conn.Client().Exists("/a") }},
			"exists and watch": {read(opExists, "/a", true), func() { conn.Client().ExistsW("/a") }},
			"write":            {SetData("/a", []byte("x"), 7), func() { conn.Client().Set("/a", []byte("x"), 7) }},
			"list":             {Children("/a"), func() { conn.Client().Children("/a") }},
			"list and watch":   {read(opGetChildren2, "/a", true), func() { conn.Client().ChildrenW("/a") }},
			"multi":            {Multi(ops...), func() { conn.Client().Multi(ops...) }},
		} {
			time.Sleep(time.Millisecond) // virtual
			from := time.Now()
			conn.Ask(t.Context(), AnySession, c.request)
			c.theirs()
			all := f.written(from)
			if len(all) != 2 || !bytes.Equal(all[0].body[4:], all[1].body[4:]) { // behind the xid
				t.Errorf("%s: %+v", name, all)
			}
		}
	})
}

// A request may be sent after the call has returned because ctx is canceled. The caller may
// overwrite the operations by then.
func TestARequestHasItsBytesForItself(t *testing.T) {
	made := &zk.CreateRequest{Path: "/made", Data: []byte("data"), Acl: zk.DigestACL(zk.PermAll, "user", "password")}
	set := &zk.SetDataRequest{Path: "/set", Data: []byte("data"), Version: 1}
	r := Multi(made, set)
	want := bytes.Clone(r.body)
	clear(made.Data)
	clear(made.Acl)
	clear(set.Data)
	*made, *set = zk.CreateRequest{}, zk.SetDataRequest{}
	if !bytes.Equal(r.body, want) {
		t.Errorf("%q, want %q", r.body, want)
	}
}

// When the caller of a request has its reply, the deadline has moved.
func TestTheDeadlineMovesBeforeTheCallerHasTheReply(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn := f.connect()
		ask := func(r Request) {
			t.Helper()
			must(t, errOf(conn.Ask(t.Context(), AnySession, r)))
		}
		time.Sleep(time.Millisecond) // virtual
		proven := time.Now()
		ask(GetData("/"))
		time.Sleep(settle(timeout)) // virtual
		var moved bool
		over := make(chan struct{})
		conn.mu.Lock()
		conn.current.enqueue(outgoing{
			Request: Multi(&zk.CheckVersionRequest{Path: "/", Version: anyVersion}),
			answered: func(_ Reply, err error) {
				moved = err == nil && conn.Deadline(fakeSession).Equal(proven.Add(timeout))
				close(over)
			},
		})
		conn.mu.Unlock()
		if <-over; !moved {
			t.Errorf("the deadline is %v", time.Until(conn.Deadline(fakeSession)))
		}
	})
}

// While the network does not take what a caller sends, its ctx ends the call, and the request is
// not sent later. The requests of the locks and those of the program wait in one line.
func TestRequestsThatCannotBeSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn, pipe := f.clogged()
		client := conn.Client()
		close(pipe.shut)
		time.Sleep(time.Millisecond) // virtual: behind the handshake
		from := time.Now()
		conn.Send(AnySession, GetData("/a"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := conn.Ask(ctx, AnySession, Delete("/a", -1)); err != ErrUnsent || time.Since(from) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(from))
		}
		for i := range 3 {
			go client.Get(fmt.Sprintf("/p%d", i))
			synctest.Wait()
			conn.Send(AnySession, GetData(fmt.Sprintf("/l%d", i)))
		}
		close(pipe.open)
		synctest.Wait()
		var paths []string
		for _, w := range f.written(from) {
			paths = append(paths, string(w.body[12:12+int32At(w.body, 8)]))
			if w.op != opGetData {
				t.Errorf("operation %d was sent", w.op)
			}
		}
		if want := []string{"/a", "/p0", "/l0", "/p1", "/l1", "/p2", "/l2"}; !slices.Equal(paths, want) {
			t.Errorf("sent %q, want %q", paths, want)
		}
	})
}

// The end of a connection answers the requests that were sent and those that were not. While a
// session moves, its requests wait.
func TestTheEndOfAConnectionAnswersItsRequests(t *testing.T) {
	t.Parallel()
	p, c := runningConn()
	p.conn.down = time.Time{}
	var got []error
	answered := func(_ Reply, err error) { got = append(got, err) }
	p.send(outgoing{Request: GetData("/a"), answered: answered})
	at := p.sent[p.conn.xid].at
	for range 2 { // the second, while the first is not answered, is none
		p.send(outgoing{Request: Request{op: opPing}})
	}
	if since, down := p.conn.Silence(); since != at || down || len(c.packets) != 2 || !slices.Equal(p.conn.Kept(), []string{"a request"}) {
		t.Errorf("silent since %v, down %v, sent %q, keeps %q", since, down, c.packets, p.conn.Kept())
	}
	p.leave()
	p.queue = []outgoing{{Request: GetData("/b"), answered: answered}}
	p.sendQueue()
	if len(got) > 0 || len(c.packets) != 2 {
		t.Errorf("answered %v, sent %v", got, p.sent)
	}
	p.fail()
	if !slices.Equal(got, []error{zk.ErrConnectionClosed, ErrUnsent}) {
		t.Errorf("%v", got)
	}
}

// After 2^31 requests the xids begin again.
func TestTheXidsBeginAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn := f.connect()
		conn.mu.Lock()
		conn.xid = math.MaxInt32 - 2
		conn.mu.Unlock()
		for i := range 5 {
			if r, err := conn.Ask(t.Context(), AnySession, Multi()); err != nil || len(r.Results) != 1 {
				t.Errorf("request %d: %+v, %v", i, r, err)
			}
		}
		for _, w := range f.written(time.Time{})[1:] { // behind the handshake
			if w.xid <= 0 {
				t.Errorf("xid %d", w.xid)
			}
		}
	})
}

// Close ends the call of a request that was sent, with the error of a lost connection, also before
// the connection is cut.
func TestCloseEndsACallUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.answer = func(_ int64, _ net.Conn, _, op int32) bool { return op == opMulti }
		conn := f.start().connect()
		var told slowMonitor
		conn.Monitored(func() Monitor { return &told })
		time.AfterFunc(time.Second, func() {
			if conn.Close(); told.checks.Load() == 0 {
				t.Error("Close has not waited until the holders have been notified")
			}
		})
		if _, err := conn.Ask(holdContext{t.Context(), conn}, AnySession, Multi()); err != zk.ErrConnectionClosed {
			t.Error(err)
		}
	})
}

// holdContext asks the connection in Err, as the context of a hold may.
type holdContext struct {
	context.Context
	conn *Conn
}

func (c holdContext) Err() error {
	c.conn.Silence()
	return c.Context.Err()
}

// slowMonitor takes a while to notify the holds.
type slowMonitor struct{ monitor }

func (m *slowMonitor) Check() {
	time.Sleep(time.Millisecond) // virtual
	m.monitor.Check()
}

// No reply makes the decoder panic, or allocate more than its bytes explain.
func FuzzDecode(f *testing.F) {
	stat := make([]byte, 68)
	for _, op := range []int32{opCreate, opDelete, opGetData, opSetData, opGetChildren2, opExists, opMulti, opSetWatches} {
		for _, body := range [][]byte{
			nil, word(-1), word(1<<31 - 1), slices.Concat(word(2), []byte("/a")),
			slices.Concat(word(1), []byte("x"), stat),
			slices.Concat(word(1), word(1), []byte("a"), stat),
			slices.Concat(word(opCreate), []byte{0}, word(0), word(2), []byte("/a"), word(opSetData), []byte{0}, word(0), stat, word(-1), []byte{1}, word(-1)),
			slices.Concat(word(opError), []byte{0}, word(-101), word(-101), word(opError), []byte{0}, word(-2), word(-2), word(-1), []byte{1}, word(-1)),
		} {
			f.Add(op, body)
		}
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		r, _, err := decode(op, body)
		if err != nil && !errors.Is(err, errFrame) {
			t.Error(err)
		}
		if cap(r.Children) > len(body) || len(r.Data) > len(body) || len(r.Results) > len(body) || r.Failed >= len(r.Results) {
			t.Errorf("%+v of %d bytes", r, len(body))
		}
	})
}

// Two processes of one session use different xids, when the second ends it: a server takes a
// request for another of the same xid.
func TestTwoProcessesOfASessionHaveDifferentXids(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		first := map[int32]bool{}
		for range 20 {
			from := time.Now()
			conn := f.connect()
			must(t, errOf(conn.Ask(t.Context(), AnySession, GetData("/"))))
			for _, w := range f.written(from) {
				if w.op == opGetData {
					first[w.xid] = true
				}
			}
			time.Sleep(time.Millisecond) // virtual
		}
		if len(first) != 20 || first[1] {
			t.Errorf("the first xids of 20 connections are %v", first)
		}
	})
}

// A server that answers nothing, on a connection that seems to be open, is left after 2T/3, also if
// nothing is under way; an idle server that answers pings is kept.
func TestAHalfOpenConnectionIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.answer = func(n int64, _ net.Conn, _, _ int32) bool { return n == 2 }
		conn := f.start().connect()
		var told monitor
		conn.Monitored(func() Monitor { return &told })
		time.Sleep(5 * timeout) // virtual
		if conn.Epoch() != 1 || conn.Up() == 0 {
			t.Error("an idle connection has ended")
		}
		conn.hangUp()
		began := time.Now()
		for conn.Epoch() < 3 && time.Since(began) < 2*timeout {
			time.Sleep(timeout / 100) // virtual
		}
		if took := time.Since(began); took < timeout*2/3 || took > timeout*3/4 {
			t.Errorf("it was left after %v", took)
		}
		if n := told.checks.Load(); n != 4 { // of two losses and two reconnects
			t.Errorf("the monitor was called %d times", n)
		}
	})
}

// A brokenConn fails the first Write of an operation, and its Read fails later.
type brokenConn struct {
	net.Conn
	op     int32
	failed chan struct{}
}

func (c *brokenConn) Write(p []byte) (int, error) {
	if int32At(p, lengthSize+4) == c.op {
		close(c.failed)
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

func (c *brokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.failed:
		sleep(context.Background(), 50*time.Millisecond)
	default:
	}
	return n, err
}

// A write that fails ends the connection at once, and each of its requests, once.
func TestAWriteThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		f.wrap = func(c net.Conn) net.Conn {
			if f.handshakes.Load() > 0 {
				return c
			}
			return &brokenConn{c, opDelete, make(chan struct{})}
		}
		conn := f.connect()
		if err := conn.Client().Delete("/", -1); err != zk.ErrConnectionClosed || conn.IsClosed() {
			t.Error(err)
		}
		if _, _, err := conn.Client().Get("/"); err != nil {
			t.Error(err)
		}
		if n := f.handshakes.Load(); n != 2 {
			t.Errorf("%d handshakes", n)
		}
	})
}

// A clog blocks all that a client sends, as full buffers do if a server does not read.
type clog struct {
	net.Conn                 // the client's end
	shut, open chan struct{} // closed, one after the other
	over       chan struct{} // closed when the client has closed the connection
	once       sync.Once
}

// clogged connects by way of a clog.
func (f *fakeServer) clogged() (*Conn, *clog) {
	pipe := &clog{shut: make(chan struct{}), open: make(chan struct{}), over: make(chan struct{})}
	f.wrap = func(c net.Conn) net.Conn { pipe.Conn = c; return pipe }
	return f.connect(), pipe
}

func (c *clog) Write(p []byte) (int, error) {
	select {
	case <-c.shut:
		select {
		case <-c.open:
		case <-c.over:
			return 0, net.ErrClosed
		}
	default:
	}
	return c.Conn.Write(p)
}

func (c *clog) Close() error {
	c.once.Do(func() { close(c.over) })
	return c.Conn.Close()
}

// A monitor counts the calls of Check.
type monitor struct{ checks atomic.Int32 }

func (m *monitor) Check() { m.checks.Add(1) }

// Close notifies the holders and ends within a second, although it cannot send its request to end
// the session.
func TestCloseWhileNothingCanBeSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn, pipe := f.clogged()
		var told monitor
		conn.Monitored(func() Monitor { return &told })
		close(pipe.shut)
		var waiting sync.WaitGroup
		for i := range 40 { // more than fit into the queue of go-zookeeper
			waiting.Go(func() {
				switch i % 3 {
				case 0:
					_, _, _ = conn.Client().Get("/")
				case 1:
					_, _ = conn.Ask(t.Context(), AnySession, GetData("/"))
				case 2:
					_, _ = conn.WatchNodes(t.Context(), AnySession, []string{"/a"}, "")
				}
			})
		}
		time.Sleep(time.Millisecond) // virtual: they wait
		began := time.Now()
		done := make(chan error)
		go func() { done <- conn.Close() }()
		time.Sleep(time.Millisecond) // virtual: it waits for the server
		if !conn.IsClosed() || told.checks.Load() == 0 {
			t.Error("the holders learn of the loss only when Close has given up")
		}
		waiting.Wait()
		if took := time.Since(began); took > 2*time.Millisecond {
			t.Errorf("the calls end after %v", took)
		}
		if err := <-done; err != errUnconfirmed {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took > closeLimit {
			t.Errorf("close took %v", took)
		}
		select {
		case <-pipe.over:
		default:
			t.Error("the network connection is open")
		}
	})
}
