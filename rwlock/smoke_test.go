package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/rwlock"
)

func TestMain(m *testing.M) { zktest.Main(m) }

func TestSmoke(t *testing.T) {
	conn := zktest.Connect(t, 5*time.Second)
	path := zktest.Path(t)
	mu := rwlock.New(conn, path)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w, err := mu.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !w.Held() {
		t.Fatal("not held")
	}
	q, err := mu.Queue(ctx)
	t.Logf("%+v %v", q, err)
	if _, err := mu.TryRLock(ctx); err == nil {
		t.Fatal("free")
	} else {
		t.Log(err)
	}
	got := make(chan *rwlock.Hold)
	go func() {
		h, err := mu.RLock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	zktest.Eventually(t, 5*time.Second, "reader queues", func() bool { q, _ := mu.Queue(ctx); return len(q) == 2 })
	if err := w.Downgrade(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if err := r.Verify(ctx); err != nil {
		t.Fatal(err)
	}
	t.Log(w.Unlock(ctx), r.Unlock(ctx), w.Unlock(ctx), r.Token(), w.Token())
	start := time.Now()
	for range 1000 {
		h, err := mu.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(time.Since(start))
	zktest.AssertEmpty(t, conn, path)
}
