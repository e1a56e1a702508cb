package observe_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// An observer logs what happens to all locks on a connection. Each event is logged as a group.
func Example_slog() {
	l := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: same}))
	observer := zklocks.WithObserver(observe.Observer{
		Called:   func(e observe.Called) { l.Debug("called", "lock", e) },
		Queued:   func(e observe.Queued) { l.Debug("queued", "lock", e) },
		Granted:  func(e observe.Granted) { l.Info("granted", "lock", e) },
		Failed:   func(e observe.Failed) { l.Warn("failed", "lock", e) },
		Released: func(e observe.Released) { l.Info("released", "lock", e) },
		Lost:     func(e observe.Lost) { l.Error("lost", "lock", e) },
		Leaked:   func(e observe.Leaked) { l.Error("never released", "lock", e) },
		Retried:  func(e observe.Retried) { l.Warn("retried", "path", e.Path, "op", e.Op, "cause", e.Cause) },
	})
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second, observer) // zklocks.Connect in a program

	mu := rwlock.New(conn, "/examples/logged")
	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l.Info("working", "lock", hold)
	if _, err := mu.TryLock(ctx); err == nil {
		log.Fatal("two hold the lock")
	}
	if err := hold.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// level=DEBUG msg=called lock.path=/examples/logged lock.kind=write
	// level=INFO msg=granted lock.path=/examples/logged lock.kind=write lock.node=… lock.token=… lock.waited=… lock.joined=false
	// level=INFO msg=working lock.path=/examples/logged lock.kind=write lock.node=… lock.token=…
	// level=DEBUG msg=called lock.path=/examples/logged lock.kind=write
	// level=WARN msg=failed lock.path=/examples/logged lock.kind=write lock.waited=… lock.cause="rwlock: try lock /examples/logged: busy"
	// level=INFO msg=released lock.path=/examples/logged lock.kind=write lock.node=… lock.token=… lock.held=…
}

// same replaces what differs between two runs.
func same(_ []string, a slog.Attr) slog.Attr {
	switch {
	case a.Key == slog.TimeKey:
		return slog.Attr{}
	case a.Key == "node", a.Key == "token", a.Value.Kind() == slog.KindDuration:
		return slog.String(a.Key, "…")
	}
	return a
}
