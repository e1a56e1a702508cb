// Package locks is for tests of locks that have made a connection by other means than
// zklocks.Connect.
package locks

import (
	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/liveness"
	"github.com/zklocks/zklocks/internal/slot"
)

// On returns a connection as the recipes take it; nil for nil.
func On(conn *zk.Conn) *zklocks.Conn {
	if conn == nil {
		return nil
	}
	c := new(zklocks.Conn)
	slot.PutConn(c, conn, liveness.Of(conn), "")
	return c
}
