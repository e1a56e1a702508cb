package reentrant_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/reentrant"
)

func BenchmarkReenter(b *testing.B) {
	mu := reentrant.New(zktest.Connect(b, 5*time.Second), zktest.Path(b))
	outer, err := mu.Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer outer.Unlock(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		inner, err := mu.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := inner.Unlock(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
