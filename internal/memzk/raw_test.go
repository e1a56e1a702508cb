package memzk

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
	"github.com/zklocks/zklocks/internal/memnet"
)

// networks has the *memnet.Network of each *Ensemble.
var networks sync.Map

func addrOf(m *Member) string { return fmt.Sprintf("zk%d:2181", m.id) }

// bubble runs a test in virtual time with its own ensemble and network.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, e *Ensemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, n := Start(cfg), memnet.New()
		defer e.Stop()
		networks.Store(e, n)
		for _, m := range e.members {
			l, err := n.Listen(addrOf(m))
			if err != nil {
				t.Fatal(err)
			}
			go m.Serve(l)
		}
		test(t, e)
	})
}

// raw sends and receives packets, for what the zk client cannot express.
type raw struct {
	t       testing.TB
	nc      net.Conn
	session int64
	secret  []byte
	timeout int32
	zxid    int64
}

type packet struct {
	xid  int32
	zxid int64
	code int32
	body []byte
}

// rawTo connects without a handshake.
func rawTo(t testing.TB, m *Member) *raw {
	t.Helper()
	n, _ := networks.Load(m.e)
	nc, err := n.(*memnet.Network).Host("client").DialContext(t.Context(), "tcp", addrOf(m))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &raw{t: t, nc: nc}
}

// rawSession connects with a new session.
func rawSession(t testing.TB, m *Member, timeout time.Duration) *raw {
	t.Helper()
	r := rawTo(t, m)
	if !r.shake(0, 0, make([]byte, 16), timeout) {
		t.Fatal("no session")
	}
	return r
}

// again connects with the session of an older connection.
func (r *raw) again(m *Member, seen int64) (next *raw, ok bool) {
	r.t.Helper()
	next = rawTo(r.t, m)
	ok = next.shake(seen, r.session, r.secret, time.Duration(r.timeout)*time.Millisecond)
	return next, ok
}

// send sends a packet. If the connection has ended, the next receive shows that.
func (r *raw) send(b []byte) { _ = jute.WriteFrame(r.nc, b) }

// receive returns nil when the connection has ended, or at a deadline.
func (r *raw) receive() []byte {
	b, err := jute.ReadFrame(r.nc)
	if err != nil {
		return nil
	}
	return b
}

// shake performs the handshake. It returns false if the session has ended or the connection ends.
func (r *raw) shake(seen, session int64, secret []byte, timeout time.Duration) bool {
	r.t.Helper()
	r.sendConnect(seen, session, secret, timeout)
	return r.welcomed()
}

func (r *raw) sendConnect(seen, session int64, secret []byte, timeout time.Duration) {
	h := jute.Handshake{Zxid: seen, Timeout: int32(timeout / time.Millisecond), Session: session, Password: secret}
	r.send(h.Append(nil))
}

func (r *raw) welcomed() bool {
	r.t.Helper()
	b := r.receive()
	if b == nil {
		return false
	}
	d := jute.Decoder{Rest: b}
	h := d.Welcome()
	r.timeout, r.session, r.secret = h.Timeout, h.Session, h.Password
	if d.Bad || len(d.Rest) > 1 {
		r.t.Fatalf("a connect response of %x", b)
	}
	return r.session != 0
}

func (r *raw) request(xid, op int32, body []byte) {
	r.send(append(jute.AppendInt32(jute.AppendInt32(nil, xid), op), body...))
}

// next returns the next packet. Code 1 means that the connection has ended.
func (r *raw) next() packet {
	r.t.Helper()
	b := r.receive()
	if b == nil {
		return packet{code: 1}
	}
	d := jute.Decoder{Rest: b}
	p := packet{xid: d.Int32(), zxid: d.Int64(), code: d.Int32(), body: d.Rest}
	if d.Bad {
		r.t.Fatalf("a packet of %x", b)
	}
	r.zxid = max(r.zxid, p.zxid)
	return p
}

// call sends a request and returns the next packet.
func (r *raw) call(op int32, body []byte) packet {
	r.t.Helper()
	r.request(7, op, body)
	return r.next()
}

// answered asserts that the next packet is the reply to a request that has succeeded.
func (r *raw) answered(xid int32) packet {
	r.t.Helper()
	p := r.next()
	if p.xid != xid || p.code != jute.CodeOK {
		r.t.Errorf("in place of the reply %d: %+v", xid, p)
	}
	return p
}

// must sends a request, which must succeed.
func (r *raw) must(op int32, body []byte) packet {
	r.t.Helper()
	p := r.call(op, body)
	if p.code != jute.CodeOK {
		r.t.Fatalf("request %d %q: %+v", op, body, p)
	}
	return p
}

func (r *raw) mustCreate(path string, flags int32) {
	r.t.Helper()
	r.must(jute.OpCreate, createBody(path, flags))
}

func (r *raw) exists(path string) bool {
	r.t.Helper()
	p := r.call(jute.OpExists, pathBody(path, false))
	if p.code != jute.CodeOK && p.code != jute.CodeNoNode {
		r.t.Fatalf("exists %s: %d", path, p.code)
	}
	return p.code == jute.CodeOK
}

// silent reports whether no packet arrives for d.
func (r *raw) silent(d time.Duration) bool {
	return errors.Is(r.peek(d), os.ErrDeadlineExceeded)
}

// ended reports whether the connection ends within d, without a packet. Even if d is 0, goroutines
// that are ending it can finish.
func (r *raw) ended(d time.Duration) bool {
	err := r.peek(d + time.Millisecond)
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (r *raw) peek(d time.Duration) error {
	r.nc.SetReadDeadline(time.Now().Add(d))
	defer r.nc.SetReadDeadline(time.Time{})
	_, err := r.nc.Read(make([]byte, 1))
	return err
}

// Bodies of requests.

func createBody(path string, flags int32) []byte {
	return jute.AppendInt32(appendACL(jute.AppendBytes(jute.AppendText(nil, path), nil), openACL), flags)
}

func pathBody(path string, watch bool) []byte {
	return jute.AppendBool(jute.AppendText(nil, path), watch)
}

func deleteBody(path string, version int32) []byte {
	return jute.AppendInt32(jute.AppendText(nil, path), version)
}

func setBody(path, data string, version int32) []byte {
	return jute.AppendInt32(jute.AppendBytes(jute.AppendText(nil, path), []byte(data)), version)
}

func (p packet) string() string {
	d := jute.Decoder{Rest: p.body}
	return d.Text()
}
