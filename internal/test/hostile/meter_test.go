package hostile

import (
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// figures are what could grow.
type figures struct {
	heap       int64 // bytes that live after a garbage collection
	goroutines int
	watches    int // nodes that the client of the connection watches
	watched    int // watches that the server has, of all clients
	nodes      int // that the server has
}

func (f figures) String() string {
	return fmt.Sprintf("heap %5d KiB, %d goroutines, %d watches of the client, %d of the server, %d nodes",
		f.heap>>10, f.goroutines, f.watches, f.watched, f.nodes)
}

// slack is by how much a heap that is flat may differ between two readings: the runtime's own
// tables and pools, and what the client is just reading into.
const slack = 512 << 10

// grown reports what is more than it was before.
func (f figures) grown(before figures) []string {
	var grown []string
	for _, g := range []struct {
		what             string
		now, then, slack int64
	}{
		{"bytes of heap", f.heap, before.heap, slack},
		{"goroutines", int64(f.goroutines), int64(before.goroutines), 0},
		{"watches of the client", int64(f.watches), int64(before.watches), 0},
		{"watches of the server", int64(f.watched), int64(before.watched), 0},
		{"nodes", int64(f.nodes), int64(before.nodes), 0},
	} {
		if g.now > g.then+g.slack {
			grown = append(grown, fmt.Sprintf("%d %s, %d before", g.now, g.what, g.then))
		}
	}
	return grown
}

// meter reads the figures of this process, of one connection and of the shared server, which no
// other test may use at the time.
type meter struct {
	testing.TB
	conn *wire.Conn
}

// read waits until no request or goroutine is active, and reads.
func (m meter) read() figures {
	m.Helper()
	var f figures
	last, same := -1, 0
	test.Eventually(m, 30*time.Second, "goroutines come to rest", func() bool {
		f.goroutines = runtime.NumGoroutine()
		if same++; f.goroutines != last {
			last, same = f.goroutines, 0
		}
		return same == 20
	})
	mntr, err := realzk.Shared(m).Mntr()
	if err != nil {
		m.Fatal(err)
	}
	number := func(key string) int {
		n, err := strconv.Atoi(mntr[key])
		if err != nil {
			m.Fatalf("%s: %v", key, err)
		}
		return n
	}
	f.watched, f.nodes = number("zk_watch_count"), number("zk_znode_count")
	f.watches = clientWatches(m.conn)
	f.heap = heap()
	return f
}

// heap returns the bytes that are reachable. Finalizers, weak pointers and cleanups take a second
// collection, and pools a third.
func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// clientWatches returns the number of entries in the client's private table of watches.
func clientWatches(conn *wire.Conn) int {
	c := reflect.ValueOf(conn).Elem()
	lock := (*sync.Mutex)(unsafe.Pointer(c.FieldByName("watchersLock").UnsafeAddr()))
	lock.Lock()
	defer lock.Unlock()
	return c.FieldByName("watchers").Len()
}

// The meter must see what it measures.
func TestTheMeterSeesALeak(t *testing.T) {
	conn := realzk.Connect(t, session, realzk.Shared(t).Addr())
	m := meter{t, conn}
	before := m.read()
	if grown := m.read().grown(before); len(grown) > 0 {
		t.Errorf("grown without a reason: %q", grown)
	}
	path := test.Path(t)
	_, err := conn.Create(path, nil, zk.FlagPersistent, open)
	must(t, err)
	for i := range 3 { // nodes that are never created
		_, _, _, err := conn.ExistsW(path + strconv.Itoa(i))
		must(t, err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() { <-stop }()
	kept := make([]byte, 32*slack) // what the tests before it have left may be freed meanwhile
	after := m.read()
	runtime.KeepAlive(kept)
	if grown := after.grown(before); len(grown) != 5 {
		t.Errorf("of a leak of each kind it sees only %q", grown)
	}
	if n := after.watches - before.watches; n != 3 {
		t.Errorf("%d watches of the client, want 3", n)
	}
}
