package realzk

import (
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/jute"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
)

// A Conn is a *wire.Conn or, in tests of other clients, a *zk.Conn.
type Conn interface {
	Server() string
	State() zk.State
}

// SessionOf returns the session of a connection, with the password with which any client can resume
// it. The password of a *zk.Conn is a private field, which the client writes at the end of each
// handshake, before it sets its state. State reads that atomically. So the read is ordered after
// the handshake that made the session. It is not ordered before the next handshake, which writes
// the same password again.
//
//go:norace
func SessionOf(conn Conn) (id int64, password []byte) {
	if own, ok := conn.(*wire.Conn); ok {
		if s := own.Own(); s != nil && s.ID == own.Session() {
			return s.ID, s.Password
		}
		return 0, nil
	}
	client := conn.(*zk.Conn)
	client.State()
	field := reflect.ValueOf(client).Elem().FieldByName("passwd")
	return client.SessionID(), append([]byte(nil), *(*[]byte)(field.Addr().UnsafePointer())...)
}

// Expire ends conn's session at the server, and returns when the server has confirmed that. The
// client first loses its connection, and is notified of the expiry when it has reconnected. Expire
// bypasses a proxy, so it also works if the client cannot reach its server.
func Expire(tb testing.TB, conn Conn) {
	tb.Helper()
	ExpireAt(tb, conn, conn.Server())
}

// ExpireAt is Expire through another member: the member of conn may be paused or dead.
func ExpireAt(tb testing.TB, conn Conn, addr string) {
	tb.Helper()
	id, password := SessionOf(conn)
	if id == 0 {
		tb.Fatal("realzk: expire: the connection has no session")
	}
	if _, err := EndSession(id, password, addr); err != nil {
		tb.Fatal(err)
	}
}

// EndSession is Expire for callers that have only the session's id and password, see Proxy.Session.
// It reports whether the session may have been alive until then: it returns false only if the
// server reported at once that there is no such session.
//
// A server has one connection for a session. If a client resumes the session at the instant when it
// ends, it may have a second connection that remains open, and on which the server ignores all
// requests. The client then detects the end only when it drops that connection, after 2/3 of its
// session timeout.
func EndSession(id int64, passwd []byte, addr string) (alive bool, err error) {
	addr = proxy.Behind(addr)
	// Resuming the session here closes the client's connection. The client may reconnect and resume
	// the session in turn before the server handles our close. So repeat until the session has
	// ended. That also closes the connection of a client that has resumed an ended session, which
	// the server would not answer.
	var over bool
	if !test.Poll(10*time.Second, func() bool {
		over, err = closeSession(addr, id, passwd)
		alive = alive || !over
		return over || err != nil
	}) {
		err = errors.New("it comes back again and again")
	}
	if err != nil {
		return alive, fmt.Errorf("realzk: expire session %#x at %s: %w", id, addr, err)
	}
	return alive, nil
}

// closeSession resumes the session on a second connection, as a reconnecting client would, and
// closes it. It sends both requests in one write, to be faster than the client. It reports whether
// the session had ended before.
func closeSession(addr string, id int64, passwd []byte) (over bool, err error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return false, err
	}
	hello := jute.AppendBool(jute.Handshake{Timeout: 10_000, Session: id, Password: passwd}.Append(nil), false)
	bye := jute.AppendInt32(jute.AppendInt32(nil, 1), jute.OpCloseSession)
	if _, err := c.Write(slices.Concat(jute.Frame(hello), jute.Frame(bye))); err != nil {
		return false, err
	}
	welcome, err := jute.ReadFrame(c)
	switch {
	case cutOff(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("handshake: %w", err)
	}
	d := jute.Decoder{Rest: welcome}
	session := d.Welcome().Session
	if err := d.Err(); err != nil {
		return false, fmt.Errorf("handshake: %w", err)
	}
	if session == 0 {
		return true, nil // or the password belongs to a later session
	}
	// Watch events of the session may come first. If the stream ends without an answer, the session
	// may have ended, or the client may have resumed it.
	for {
		answer, err := jute.ReadFrame(c)
		switch {
		case cutOff(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("close: %w", err)
		}
		if d := (jute.Decoder{Rest: answer}); d.Int32() == 1 {
			return false, nil
		}
	}
}

// cutOff reports whether the server has closed the connection: the session has ended or moved.
func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
