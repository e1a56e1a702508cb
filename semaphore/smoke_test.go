package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/semaphore"
)

func TestMain(m *testing.M) { zktest.Main(m) }

func TestSmoke(t *testing.T) {
	conn := zktest.Connect(t, 5*time.Second)
	path := zktest.Path(t)
	s := semaphore.New(conn, path, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a, err := s.Acquire(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.TryAcquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.TryAcquire(ctx, 1)
	t.Log(err)
	_, err = semaphore.New(conn, path, 4).TryAcquire(ctx, 1)
	t.Log(err)
	_, err = s.Acquire(ctx, 4)
	t.Log(err)
	got := make(chan *semaphore.Hold)
	go func() {
		h, err := s.Acquire(ctx, 3)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	zktest.Eventually(t, 5*time.Second, "queues", func() bool { q, err := s.Queue(ctx); return err == nil && len(q) == 3 })
	q, err := s.Queue(ctx)
	t.Logf("%+v %v", q, err)
	if err := s.Resize(ctx, 5); err != nil {
		t.Fatal(err)
	}
	a.Release(ctx)
	h := <-got
	t.Log(b.Release(ctx), h.Release(ctx), h.Release(ctx))
	start := time.Now()
	for range 1000 {
		h, err := s.Acquire(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(time.Since(start))
	zktest.AssertEmpty(t, conn, path+"/queue")
}
