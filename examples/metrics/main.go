// Metrics works under locks and serves their metrics, for Prometheus.
//
//	go run . -servers host:2181       # then: curl localhost:9464/metrics
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/metrics/traffic"
	"github.com/zklocks/zklocks/metrics"
	"github.com/zklocks/zklocks/observe"
)

var (
	servers = flag.String("servers", env("ZK_SERVERS", "127.0.0.1:2181"), "addresses of the ensemble, with commas between them")
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
	observers := []zklocks.ConnectOption{ // observers of all locks on the connection
		zklocks.WithObserver(metrics.Observer(registry)),
		zklocks.WithObserver(observe.Observer{
			Lost: func(e observe.Lost) { slog.Error("lock lost", "path", e.Path, "kind", e.Kind, "cause", e.Cause) },
		}),
	}
	list, chroot, err := zklocks.ParseServers(*servers)
	if err != nil {
		return err
	}
	conn, err := zklocks.Connect(ctx, list, 10*time.Second, append(observers, zklocks.WithChroot(chroot))...)
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
	traffic.Run(ctx, conn, *path)
	return nil
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
