package rwlock_test

import (
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

// 64 goroutines for each processor share one read lock: what is measured is a
// join and a leave, without any request.
func BenchmarkJoinedRead(b *testing.B) { joinedRead(b) }

// The same, and somebody counts.
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
			h, err := mu.RLock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := h.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.StopTimer()
	if err := first.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// Nobody is in the way: two requests. What counts here is what they allocate;
// most of it is the client's, which is measured by the benchmark of internal/wire. The server is a real one, because
// what one in this process allocates would count, too.
func BenchmarkLock(b *testing.B) {
	conn := realzk.Connect(b, 10*time.Second)
	mu := rwlock.New(locks.On(conn), test.Path(b))
	b.ReportAllocs()
	for b.Loop() {
		h, err := mu.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// Goroutines of one process hand the write lock on, 64 times in a row. On a real server, as BenchmarkLock.
func BenchmarkHandoff(b *testing.B) {
	conn := realzk.Connect(b, 10*time.Second)
	mu := rwlock.New(locks.On(conn), test.Path(b), rwlock.WithHandoff(64))
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h, err := mu.Lock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := h.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
