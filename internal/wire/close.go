package wire

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
)

var errUnconfirmed = errors.New("zklocks: close: no server has answered: the session, and its nodes, may stay until its timeout is over")

// Close closes a connection and reports whether a server has ended its session. From the second
// call on it returns nil.
func Close(conn *zk.Conn) error {
	l := liveness.Of(conn)
	session := l.Session() // 0 if it was closed before
	l.End(conn)
	if session == 0 || l.CloseConfirmed.Load() {
		return nil
	}
	return errUnconfirmed
}
