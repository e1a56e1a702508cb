package goid

import (
	"sync"
	"testing"
)

func TestEveryGoroutineHasItsOwnNumber(t *testing.T) {
	for name, id := range map[string]func() int64{"chosen": ID, "from stack": fromStack} {
		var mu sync.Mutex
		seen := map[int64]bool{}
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				n := id()
				if n != id() || n <= 0 {
					t.Errorf("%s: number changes", name)
				}
				mu.Lock()
				defer mu.Unlock()
				if seen[n] {
					t.Errorf("%s: number %d twice", name, n)
				}
				seen[n] = true
			})
		}
		all.Wait()
	}
}

func TestAWrongFastPathIsNotChosen(t *testing.T) {
	wrong := choose(func() int64 { return 1 })
	if wrong() != fromStack() {
		t.Fatal("a fast path that lies was chosen")
	}
}

func TestTheFastPathIsKnownToThisGoVersion(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { ID() }); n != 0 {
		t.Fatalf("%v allocations: the slow path is in use", n)
	}
}

func BenchmarkID(b *testing.B) {
	for b.Loop() {
		ID()
	}
}
