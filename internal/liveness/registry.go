package liveness

import (
	"runtime"
	"sync"
	"weak"

	"github.com/go-zookeeper/zk"
)

// registry finds the Link of a connection. Both sides are weak: the registry must not keep a connection, and the 3 MB that
// come with it, from being collected. The connection itself keeps its Link.
var registry struct {
	sync.RWMutex
	links map[weak.Pointer[zk.Conn]]weak.Pointer[Link]
}

// Attach makes l the Link of conn, which has to keep it, as those of wire do by their dialer.
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

// Of returns the Link of conn, nil for a connection that wire did not make.
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
