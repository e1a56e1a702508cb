// Metrics works under locks and serves their metrics, for Prometheus.
//
//	go run . -servers host:2181       # then: curl localhost:9464/metrics
package main

import (
	"cmp"
	"context"
	"flag"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/metrics"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

var (
	servers = flag.String("servers", cmp.Or(os.Getenv("ZK_SERVERS"), "127.0.0.1:2181"), "addresses of the ensemble, with commas between them")
	listen  = flag.String("listen", "127.0.0.1:9464", "where Prometheus may scrape")
	path    = flag.String("path", "/zklocks-metrics", "where the locks are")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal("metrics: ", err)
	}
}

func run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	options := []zklocks.ConnectOption{
		zklocks.WithLogger(slog.NewLogLogger(slog.Default().Handler(), slog.LevelInfo)), // why Connect waits
		// Observers of all locks on the connection.
		zklocks.WithObserver(metrics.Observer(registry)),
		zklocks.WithObserver(observe.Observer{
			Lost: func(e observe.Lost) { slog.Error("lock lost", "path", e.Path, "kind", e.Kind, "cause", e.Cause) },
		}),
	}
	list, chroot, err := zklocks.ParseServers(*servers)
	if err != nil {
		return err
	}
	conn, err := zklocks.Connect(ctx, list, 10*time.Second, append(options, zklocks.WithChroot(chroot))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	defer l.Close()
	slog.Info("scrape", "url", "http://"+l.Addr().String()+"/metrics")
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() {
		if err := http.Serve(l, nil); ctx.Err() == nil {
			slog.Error("scrape", "error", err)
		}
	}()
	traffic(ctx, conn, *path)
	return nil
}

// traffic reads and rewrites an index, converts with three permits, and walks a tree, each on
// several goroutines, until ctx is canceled.
func traffic(ctx context.Context, conn *zklocks.Conn, root string) {
	index := rwlock.New(conn, root+"/index")
	jobs := semaphore.New(conn, root+"/jobs", 3)
	tree := reentrant.New(conn, root+"/tree")

	var all sync.WaitGroup
	work := func(goroutines int, turn func(context.Context) error) {
		for range goroutines {
			all.Go(func() {
				for ctx.Err() == nil {
					// A worker that is not granted the lock in time does something else for a
					// while.
					one, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
					if turn(one) != nil {
						pause(ctx, 50*time.Millisecond)
					}
					cancel()
				}
			})
		}
	}
	work(6, func(ctx context.Context) error { return hold(ctx, index.RLock, 10*time.Millisecond) })
	work(2, func(ctx context.Context) error { return hold(ctx, index.Lock, 20*time.Millisecond) })
	work(10, func(ctx context.Context) error { return hold(ctx, jobs.Locker(1).Lock, 60*time.Millisecond) })
	work(2, func(ctx context.Context) error { return walk(ctx, tree, 3) })
	all.Wait()
}

// hold works under a lock.
func hold(ctx context.Context, lock func(context.Context) (*zklocks.Hold, error), work time.Duration) error {
	return zklocks.Do(ctx, lock, func(ctx context.Context, _ *zklocks.Hold) error {
		pause(ctx, work)
		return nil
	})
}

func walk(ctx context.Context, tree *reentrant.Mutex, depth int) error {
	return zklocks.Do(ctx, tree.Lock, func(ctx context.Context, _ *zklocks.Hold) error {
		pause(ctx, 5*time.Millisecond)
		if depth > 1 {
			_ = walk(ctx, tree, depth-1) // its error does not matter here
		}
		return nil
	})
}

// pause works for about d.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
