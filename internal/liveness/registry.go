package liveness

import (
	"runtime"
	"sync"
	"weak"

	"github.com/go-zookeeper/zk"
)

// links maps a weak.Pointer[zk.Conn] to the weak.Pointer[Link] of that connection. Both are weak:
// the map must not keep a connection, and the 3 MB that it refers to, from being collected. The
// connection itself refers to its Link.
var links sync.Map

// Attach makes l the Link of conn. conn must keep l alive; a connection made by wire does so
// through its dialer.
func Attach(conn *zk.Conn, l *Link) {
	key := weak.Make(conn)
	links.Store(key, weak.Make(l))
	runtime.AddCleanup(conn, func(key weak.Pointer[zk.Conn]) { links.Delete(key) }, key)
}

// Of returns the Link of conn, or nil if wire did not make conn.
func Of(conn *zk.Conn) *Link {
	l, ok := links.Load(weak.Make(conn))
	if !ok {
		return nil
	}
	return l.(weak.Pointer[Link]).Value()
}
