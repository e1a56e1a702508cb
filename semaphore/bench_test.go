package semaphore_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/semaphore"
)

// Without contention, an Acquire and a Release send two requests. The benchmark counts their
// allocations. Most are the zk client's, which the benchmark of internal/wire measures. It needs a
// real server: an in-memory server would allocate in the same process.
func BenchmarkAcquire(b *testing.B) {
	sem := semaphore.New(locks.On(realzk.Connect(b, 10*time.Second)), test.Path(b), 4)
	b.ReportAllocs()
	for b.Loop() {
		h, err := sem.Acquire(b.Context(), 1)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
