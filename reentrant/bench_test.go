package reentrant_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/goid"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/reentrant"
)

// A function that holds the lock calls itself, to a given depth, and each call has its own hold.
// The benchmark measures Lock and Release of one more call, which finds its owner by goroutine id
// or by context.
func BenchmarkReenter(b *testing.B) {
	mu := reentrant.New(locks.On(realzk.Connect(b, 5*time.Second, loopback.For(b).Addr())), test.Path(b))
	for _, depth := range []int{10, 1000} {
		for _, way := range []string{"goroutine", "context"} {
			b.Run(fmt.Sprintf("%s/depth=%d", way, depth), func(b *testing.B) {
				b.ReportAllocs()
				recurse(b, b.Context(), mu, way == "context", depth)
			})
		}
	}
}

func recurse(b *testing.B, ctx context.Context, mu *reentrant.Mutex, byContext bool, depth int) {
	hold, err := mu.Lock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer hold.Release(ctx)
	if byContext {
		ctx = hold.Context(ctx)
	}
	if depth > 1 {
		recurse(b, ctx, mu, byContext, depth-1)
		return
	}
	for b.Loop() {
		inner, err := mu.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := inner.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// The lower bound of a re-entry by goroutine id: Lock and Release each take one read of the two
// clocks and one update of a counter guarded by a mutex.
func BenchmarkLeast(b *testing.B) {
	l := realzk.Connect(b, 5*time.Second, loopback.For(b).Addr())
	var mu sync.Mutex
	holds := map[int64]*int{goid.ID(): new(int)}
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		n := holds[goid.ID()]
		_ = l.Alive(l.Session()) // false in a long run: no heartbeat extends the deadline without a lock
		if *n += by; *n < 0 {
			b.Fatal("not held")
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		count(+1)
		count(-1)
	}
}
