package semaphore_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/semaphore"
)

// Nobody is in the way: two requests. What counts here is what they allocate;
// most of it is the client's, which is measured by the benchmark of internal/wire. The server is a real one, because
// what one in this process allocates would count, too.
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
