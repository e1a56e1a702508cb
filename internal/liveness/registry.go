package liveness

import (
	"runtime"
	"sync"
	"weak"

	"github.com/go-zookeeper/zk"
)

// registry maps a connection to its Link. Both pointers are weak: the registry must not keep a
// connection, and the 3 MB that it refers to, from being collected. The connection itself refers to
// its Link.
var registry struct {
	sync.RWMutex
	links map[weak.Pointer[zk.Conn]]weak.Pointer[Link]
}

// Attach makes l the Link of conn. conn must keep l alive; a connection made by wire does so
// through its dialer.
func Attach(conn *zk.Conn, l *Link) {
	key := weak.Make(conn)
	registry.Lock()
	defer registry.Unlock()
	if registry.links == nil {
		registry.links = make(map[weak.Pointer[zk.Conn]]weak.Pointer[Link])
	}
	registry.links[key] = weak.Make(l)
	runtime.AddCleanup(conn, forget, key)
}

// Of returns the Link of conn, or nil if wire did not make conn.
func Of(conn *zk.Conn) *Link {
	if conn == nil {
		return nil
	}
	key := weak.Make(conn)
	registry.RLock()
	defer registry.RUnlock()
	return registry.links[key].Value()
}

func forget(key weak.Pointer[zk.Conn]) {
	registry.Lock()
	defer registry.Unlock()
	delete(registry.links, key)
}
