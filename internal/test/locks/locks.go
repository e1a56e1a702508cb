// Package locks is for tests of locks that have made a connection by other means than
// zklocks.Connect.
package locks

import (
	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
)

// On returns a connection as the recipes take it; nil for nil.
func On(conn *wire.Conn) *zklocks.Conn {
	if conn == nil {
		return nil
	}
	c := new(zklocks.Conn)
	slot.PutConn(c, conn, "")
	return c
}
