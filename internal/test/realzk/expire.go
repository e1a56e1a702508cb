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
)

// A Conn is a *zk.Conn, or a *wire.Conn, which embeds one.
type Conn interface {
	SessionID() int64
	Server() string
	State() zk.State
}

// Expire ends conn's session at the server, at once, and returns when the server has confirmed it.
// The client first loses its connection, and gets the expiry when it has reconnected. It works with
// any Conn, also one that cannot reach its server (it bypasses a muted or refusing Proxy).
func Expire(tb testing.TB, conn Conn) {
	tb.Helper()
	if err := ExpireSession(conn); err != nil {
		tb.Fatal(err)
	}
}

// ExpireAt is Expire by way of another member of the ensemble, for when the one that conn is
// connected to is paused or dead.
func ExpireAt(tb testing.TB, conn Conn, addr string) {
	tb.Helper()
	if err := expireSession(conn, addr); err != nil {
		tb.Fatal(err)
	}
}

// ExpireSession is Expire for programs that are no tests.
func ExpireSession(conn Conn) error { return expireSession(conn, conn.Server()) }

func expireSession(conn Conn, addr string) error {
	id := conn.SessionID()
	if id == 0 {
		return errors.New("realzk: expire: the connection has no session")
	}
	_, err := EndSession(id, password(conn), addr)
	return err
}

// EndSession is Expire for callers that have only the session's id and password, see Proxy.Session.
// It reports whether the session may have been alive until then: false only if the server said at
// once that there is none.
//
// A server knows one connection of a session. A client that resumes the session in the instant in
// which it ends may have another one, which stays open, and on which the server drops what it
// reads. The client then hears of the end when it gives the connection up: after 2/3 of its session
// timeout.
func EndSession(id int64, passwd []byte, addr string) (alive bool, err error) {
	addr = proxy.Behind(addr)
	// Resuming the session here cuts the client off, which may reconnect and resume it in turn
	// before the server handles our close. So repeat until the session is gone. That also cuts off
	// a client that has resumed a session that is gone, where the server would not answer it.
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

// SessionPassword is what, with the session's id, allows any client to resume the session.
func SessionPassword(conn Conn) []byte { return password(conn) }

// password reads a private field of zk.Conn. The client writes it at the end of each handshake,
// before it sets its state, which State reads atomically; so the read is ordered after the
// handshake that made the session. It is not ordered before the next one, in which the same
// password is written again.
//
//go:norace
func password(conn Conn) []byte {
	conn.State()
	field := reflect.ValueOf(conn).Elem().FieldByName("passwd")
	return append([]byte(nil), *(*[]byte)(field.Addr().UnsafePointer())...)
}

// closeSession resumes the session on a second connection, as a client that reconnects would, and
// closes it; both in one write, to be faster than the client. It reports whether the session was
// over already.
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
		return true, nil // or the password is of a later one
	}
	// Watch events of the session may come first. If the stream ends without an answer the session
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

// cutOff reports whether the server has closed the connection, because the client has resumed the
// session.
func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
