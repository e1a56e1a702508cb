package memzk

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

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
	near, far := newPipe()
	go m.ServeConn(far)
	t.Cleanup(func() { near.Close() })
	return &raw{t: t, nc: near}
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

func (r *raw) send(b []byte) {
	r.t.Helper()
	if err := jute.WriteFrame(r.nc, b); err != nil {
		r.t.Fatal(err)
	}
}

// receive returns nil when the connection has ended.
func (r *raw) receive() []byte {
	r.t.Helper()
	b, err := jute.ReadFrame(r.nc)
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.t.Fatal(err)
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
	r.t.Helper()
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
	r.t.Helper()
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
	r.must(jute.OpCreate, createBody(path, "", flags))
}

// silent reports whether no packet arrives for d.
func (r *raw) silent(d time.Duration) bool {
	r.t.Helper()
	r.nc.SetReadDeadline(time.Now().Add(d))
	defer r.nc.SetReadDeadline(time.Time{})
	var b [1]byte
	_, err := r.nc.Read(b[:])
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// ended reports whether the connection ends within d, without a packet. Even if d is 0, goroutines
// that are ending it can finish.
func (r *raw) ended(d time.Duration) bool {
	r.t.Helper()
	r.nc.SetReadDeadline(time.Now().Add(d + time.Millisecond))
	defer r.nc.SetReadDeadline(time.Time{})
	var b [1]byte
	_, err := r.nc.Read(b[:])
	return errors.Is(err, io.EOF)
}

// Bodies of requests.

func createBody(path, data string, flags int32) []byte {
	return jute.AppendInt32(appendACL(jute.AppendBytes(appendString(nil, path), []byte(data)), openACL), flags)
}

func pathBody(path string, watch bool) []byte { return jute.AppendBool(appendString(nil, path), watch) }

func deleteBody(path string, version int32) []byte {
	return jute.AppendInt32(appendString(nil, path), version)
}

func setBody(path, data string, version int32) []byte {
	return jute.AppendInt32(jute.AppendBytes(appendString(nil, path), []byte(data)), version)
}

func (p packet) string() string {
	d := jute.Decoder{Rest: p.body}
	return d.Text()
}

func (p packet) event() (kind int32, path string) {
	d := jute.Decoder{Rest: p.body}
	kind, _, path = d.Int32(), d.Int32(), d.Text()
	return kind, path
}
