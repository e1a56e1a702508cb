package observe_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

// logged logs what happens to locks.
func logged(l *slog.Logger) observe.Observer {
	return observe.Observer{
		Queued:   func(e observe.Queued) { l.Info("queued", "path", e.Path, "kind", e.Kind, "ahead", e.Ahead) },
		Granted:  func(e observe.Granted) { l.Info("granted", "path", e.Path, "kind", e.Kind, "waited", e.Waited) },
		Released: func(e observe.Released) { l.Info("released", "path", e.Path, "kind", e.Kind, "held", e.Held) },
		Lost:     func(e observe.Lost) { l.Error("lost", "path", e.Path, "kind", e.Kind, "cause", e.Cause) },
		Retried:  func(e observe.Retried) { l.Warn("retried", "path", e.Path, "op", e.Op, "cause", e.Cause) },
	}
}

// Five lines log the events with log/slog.
func Example_slog() {
	ctx := context.Background()
	conn, err := zklocks.Connect(ctx, realzk.ExampleServers(), 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTimes}))
	mu := rwlock.New(conn, "/examples/index", zklocks.WithObserver(logged(logger)))
	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := mu.Downgrade(ctx, hold); err != nil { // what was a write lock goes on as a read lock
		log.Fatal(err)
	}
	if err := hold.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// level=INFO msg=granted path=/examples/index kind=write waited=…
	// level=INFO msg=released path=/examples/index kind=write held=…
	// level=INFO msg=granted path=/examples/index kind=read waited=…
	// level=INFO msg=released path=/examples/index kind=read held=…
}

// Counting holds takes two of the functions.
func Example() {
	ctx := context.Background()
	conn, err := zklocks.Connect(ctx, realzk.ExampleServers(), 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	mu := rwlock.New(conn, "/examples/counted", zklocks.WithObserver(observe.Observer{
		Granted:  func(e observe.Granted) { fmt.Println(e.Kind, "granted, joined:", e.Joined) },
		Released: func(e observe.Released) { fmt.Println(e.Kind, "released") },
	}))
	for range 2 {
		hold, err := mu.RLock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer hold.Release(ctx)
	}
	// Output:
	// read granted, joined: false
	// read granted, joined: true
	// read released
	// read released
}

// withoutTimes makes the output the same in every run.
func withoutTimes(_ []string, a slog.Attr) slog.Attr {
	switch {
	case a.Key == slog.TimeKey:
		return slog.Attr{}
	case a.Value.Kind() == slog.KindDuration:
		return slog.String(a.Key, "…")
	}
	return a
}
