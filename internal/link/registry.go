package link

import (
	"runtime"
	"sync"
	"weak"

	"github.com/go-zookeeper/zk"
)

// registry finds the Link of a connection. The key is weak: the registry must not keep a connection, and the 3 MB that
// come with it, from being collected. Hence a Link must never reach its *zk.Conn, for the registry holds the Link.
var registry struct {
	sync.RWMutex
	links map[weak.Pointer[zk.Conn]]*Link
}

// Attach makes l the Link of conn.
func Attach(conn *zk.Conn, l *Link) {
	key := weak.Make(conn)
	registry.Lock()
	defer registry.Unlock()
	if registry.links == nil {
		registry.links = make(map[weak.Pointer[zk.Conn]]*Link)
	}
	registry.links[key] = l
	runtime.AddCleanup(conn, forget, key)
}

// Of returns the Link of conn, nil for a connection that zkconn did not make.
func Of(conn *zk.Conn) *Link {
	if conn == nil {
		return nil
	}
	key := weak.Make(conn)
	registry.RLock()
	defer registry.RUnlock()
	return registry.links[key]
}

func forget(key weak.Pointer[zk.Conn]) {
	registry.Lock()
	defer registry.Unlock()
	delete(registry.links, key)
}
