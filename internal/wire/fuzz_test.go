package wire

import (
	"bytes"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A script is a server that sends fixed bytes, and does not read.
type script struct{ *bytes.Reader }

func (script) Write(p []byte) (int, error)      { return len(p), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

// Whatever a server sends, nothing panics, there is no session before an exchange of SASL is
// complete, and the guest receives whole frames, each in reply to its request, or the connection
// ends.
func FuzzWire(f *testing.F) {
	hello := handshakeFrame(fakeSession, 4000, 16)
	for _, said := range [][]byte{
		nil, word(0), word(-1), hello[:17],
		hello,
		handshakeFrame(0, 4000, 16), // expired
		handshakeFrame(1, 4000, 1000),
		slices.Concat(hello, frame(header(1)[:15])),
		slices.Concat(hello, word(1<<31-1), header(1)),
		slices.Concat(hello, frame(append(header(1), word(3)...))),
		slices.Concat(hello, frame(append(header(2), word(1<<31-1)...))),
		slices.Concat(hello, frame(append(header(3), append(word(opCheck), 0, 0, 0, 0, 0)...))),
		slices.Concat(hello, frame(header(xidEvent)), frame(header(-2)), frame(header(99))),
		[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		f.Add(said, false)
	}
	const xid = 1
	for _, said := range [][]byte{
		nil, word(0), word(-1), word(1<<31 - 1),
		challenge(xid, 0, nil), challenge(xid, 0, []byte("who?")), challenge(xid, codeAuthFailed, nil), challenge(9, 0, nil),
		slices.Concat(challenge(xid, 0, []byte("who?")), challenge(xid+1, 0, []byte("prove it")), challenge(xid+2, 0, nil), frame(header(-2))),
		frame(header(xid)), frame(append(header(xid), word(1<<31-1)...)),
	} {
		f.Add(slices.Concat(hello, said), true)
	}
	ops := []int32{opGetData, opGetChildren2, opMulti, opGetACL, opExists, opSetAuth, opReconfig}
	f.Fuzz(func(t *testing.T, said []byte, authenticates bool) {
		c := newConn([]string{"zk:1"}, 4*time.Second, settings{})
		defer c.leave()
		w := newPacketConn(c, script{bytes.NewReader(said)}, "zk:1", "zk:1", time.Second, nil)
		c.xid = 0
		next, _ := pass(t.Context(), "zk")
		proved := !authenticates
		if authenticates {
			w.sasl = func(challenge []byte) (response []byte, done bool, err error) {
				response, proved, err = next(challenge)
				return response, proved, err
			}
		}
		err := w.shakeHands()
		if (err == nil) != (c.Session() != 0) || err == nil && !proved {
			t.Fatalf("%v, and session %d", err, c.Session())
		}
		if err != nil {
			return
		}
		c.mu.Lock()
		c.xid = 0
		c.mu.Unlock()
		for i, op := range ops {
			w.send(outgoing{Request: Request{op: op}, forward: func(frame []byte) error {
				if frame != nil && (int(int32At(frame, 0)) != len(frame)-lengthSize || len(frame) < lengthSize+replyHeader || int32At(frame, 4) != int32(i+1)) {
					t.Fatalf("frame %x in reply to request %d", frame, i+1)
				}
				return nil
			}})
		}
		if w.serve() == nil {
			t.Fatal("it does not end")
		}
		w.fail()
	})
}

// go-zookeeper's decoder must not panic on a body that passes checkBody. Here a caller's goroutine
// decodes the answer, so that the fuzzer reports a panic.
func FuzzReply(f *testing.F) {
	var said atomic.Pointer[[]byte]
	server := newFakeServer(f)
	server.answer = func(_ int64, c net.Conn, xid, op int32) bool {
		const ping = 11
		body := said.Load()
		if body == nil || op == ping || op == opClose {
			return false
		}
		reply := header(xid)
		copy(reply[12:], *body) // the code
		c.Write(frame(append(reply, (*body)[min(4, len(*body)):]...)))
		return true
	}
	server.start()
	acl := zk.WorldACL(zk.PermAll)
	calls := []func(*Conn) error{
		func(c *Conn) error { _, _, err := c.Client().Get("/"); return err },
		func(c *Conn) error { _, _, err := c.Client().Children("/"); return err },
		func(c *Conn) error { _, _, _, err := c.Client().GetW("/"); return err },
		func(c *Conn) error { _, _, err := c.Client().Exists("/"); return err },
		func(c *Conn) error { _, _, err := c.Client().GetACL("/"); return err },
		func(c *Conn) error { _, err := c.Client().Create("/a", nil, 0, acl); return err },
		func(c *Conn) error {
			_, err := c.Client().CreateContainer("/a", nil, zk.FlagContainer, acl)
			return err
		},
		func(c *Conn) error { _, err := c.Client().Set("/", nil, -1); return err },
		func(c *Conn) error { return c.Client().Delete("/a", -1) },
		func(c *Conn) error { _, err := c.Client().Sync("/"); return err },
		func(c *Conn) error {
			_, err := c.Client().Multi(&zk.CheckVersionRequest{Path: "/"}, &zk.CreateRequest{Path: "/a", Acl: acl}, &zk.SetDataRequest{Path: "/"})
			return err
		},
	}
	stat := make([]byte, 68)
	for call := range calls {
		for _, body := range [][]byte{
			nil, word(0), word(-101), word(-1000), append(word(0), 0xff),
			slices.Concat(word(0), word(-1), stat),
			slices.Concat(word(0), word(2), word(1), []byte("a"), word(1<<31-1), []byte("b"), stat),
			slices.Concat(word(0), word(1<<31-1), stat),
			slices.Concat(word(0), word(opCreate), []byte{0}, word(0), word(2), []byte("/a"), word(opSetData), []byte{0}, word(0), stat, word(-1), []byte{1}, word(-1)),
			slices.Concat(word(0), word(opCreate), []byte{0}, word(0), word(-1), word(-1), []byte{1}, word(-1)),
			slices.Concat(word(0), word(opCheck), []byte{0}, word(0)),
			slices.Concat(word(0), word(opError), []byte{0}, word(-2), word(-2)),
		} {
			f.Add(uint8(call), body)
		}
	}
	f.Fuzz(func(t *testing.T, call uint8, body []byte) {
		conn := connectTo(t, server)
		defer conn.Close()
		said.Store(&body)
		done := make(chan struct{})
		go func() {
			defer close(done)
			calls[int(call)%len(calls)](conn) // the call returns, with any result, and the process lives
		}()
		select {
		case <-done:
			said.Store(nil)
		case <-time.After(10 * time.Second):
			t.Fatal("the call does not return")
		}
	})
}
