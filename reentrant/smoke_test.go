package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/reentrant"
)

func TestMain(m *testing.M) { zktest.Main(m) }

func TestSmoke(t *testing.T) {
	conn := zktest.Connect(t, 5*time.Second)
	path := zktest.Path(t)
	s := reentrant.New(conn, path)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a, err := s.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		_, err := s.TryLock(ctx)
		t.Log(err)
		h, err := s.TryLock(b.Context(ctx))
		t.Log(err, s.Holds(), h.Unlock(ctx), s.Holds())
		close(done)
	}()
	<-done
	t.Log(s.Holds(), a.Unlock(ctx), s.Holds(), b.Unlock(ctx), b.Unlock(ctx), s.Holds())
	zktest.AssertEmpty(t, conn, path)
}

func BenchmarkReenter(b *testing.B) {
	conn := zktest.Connect(b, 5*time.Second)
	s := reentrant.New(conn, zktest.Path(b))
	a, err := s.Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer a.Unlock(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		h, _ := s.Lock(b.Context())
		h.Unlock(b.Context())
	}
}
