// Package locks is for tests that make their connections without zklocks.Connect.
package locks

import (
	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
)

// On returns a *zklocks.Conn for the recipes; nil for nil.
func On(conn *wire.Conn) *zklocks.Conn {
	if conn == nil {
		return nil
	}
	c := new(zklocks.Conn)
	slot.PutConn(c, conn, "")
	return c
}
