package liveness

import (
	"runtime"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

func TestRegistry(t *testing.T) {
	a, b, stranger := new(zk.Conn), new(zk.Conn), new(zk.Conn)
	la, lb := New(), New()
	Attach(a, la)
	Attach(b, lb)
	if Of(a) != la || Of(b) != lb {
		t.Error("a connection has another one's Link")
	}
	if Of(stranger) != nil || Of(nil) != nil {
		t.Error("a foreign connection has a Link")
	}
	for _, kept := range []any{a, b, la, lb} {
		runtime.KeepAlive(kept)
	}
}

// A dropped connection must leave no entry.
func TestRegistryForgets(t *testing.T) {
	for range 100 {
		Attach(new(zk.Conn), New())
	}
	size := func() (n int) {
		links.Range(func(any, any) bool { n++; return true })
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); size() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d entries are left", size())
		}
		runtime.GC()
	}
}
