package rwlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

// 64 goroutines per processor share one read lock: the benchmark measures a join and a leave,
// without any request.
func BenchmarkJoinedRead(b *testing.B) { joinedRead(b) }

// BenchmarkObservedRead is BenchmarkJoinedRead with an observer that counts.
func BenchmarkObservedRead(b *testing.B) {
	var n atomic.Int64
	joinedRead(b, zklocks.WithObserver(observe.Observer{
		Granted:  func(observe.Granted) { n.Add(1) },
		Released: func(observe.Released) { n.Add(-1) },
	}))
	if n.Load() != 0 {
		b.Errorf("%d more were granted than released", n.Load())
	}
}

func joinedRead(b *testing.B, opts ...rwlock.Option) {
	conn := realzk.Connect(b, 10*time.Second, loopback.For(b).Addr())
	mu := rwlock.New(locks.On(conn), test.Path(b), opts...)
	first, err := mu.RLock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			cycle(b, mu.RLock)
		}
	})
	b.StopTimer()
	if err := first.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func cycle(b *testing.B, take func(context.Context) (*zklocks.Hold, error)) {
	h, err := take(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// Without contention, a Lock and a Release send two requests. The benchmark counts their
// allocations. Most are the zk client's, which the benchmark of internal/wire measures. It needs a
// real server: an in-memory server would allocate in the same process.
func BenchmarkLock(b *testing.B) {
	conn := realzk.Connect(b, 10*time.Second)
	mu := rwlock.New(locks.On(conn), test.Path(b))
	b.ReportAllocs()
	for b.Loop() {
		cycle(b, mu.Lock)
	}
}

// Goroutines of one process hand the write lock on, 64 times in a series, on a real server like
// BenchmarkLock.
func BenchmarkHandoff(b *testing.B) {
	conn := realzk.Connect(b, 10*time.Second)
	mu := rwlock.New(locks.On(conn), test.Path(b), rwlock.WithHandoff(64))
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			cycle(b, mu.Lock)
		}
	})
}
