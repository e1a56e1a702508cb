// Metrics exports the waits, holds and losses of locks to Prometheus and OpenTelemetry. It works
// under locks and serves what it counts.
//
//	go run . -servers host:2181       # then: curl localhost:9464/metrics
//	go run . -servers host:2181 -otel # every 5 s, what OpenTelemetry would export
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
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/metrics/lockmetrics"
	"github.com/zklocks/zklocks/examples/metrics/traffic"
	"github.com/zklocks/zklocks/observe"
)

var (
	servers = flag.String("servers", env("ZK_SERVERS", "127.0.0.1:2181"), "addresses of the ensemble, with commas between them")
	listen  = flag.String("listen", "127.0.0.1:9464", "where Prometheus may scrape")
	path    = flag.String("path", "/zklocks-metrics", "where the locks are")
	otel    = flag.Bool("otel", false, "print what OpenTelemetry counts, every 5 s")
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
	observers := []observe.Observer{
		lockmetrics.Prometheus(registry),
		{Lost: func(e observe.Lost) { slog.Error("lock lost", "path", e.Path, "kind", e.Kind, "cause", e.Cause) }},
	}
	if *otel {
		exporter, err := stdoutmetric.New(stdoutmetric.WithPrettyPrint())
		if err != nil {
			return err
		}
		provider := sdk.NewMeterProvider(sdk.WithReader(sdk.NewPeriodicReader(exporter, sdk.WithInterval(5*time.Second))))
		defer provider.Shutdown(context.Background())
		o, err := lockmetrics.OpenTelemetry(provider.Meter("zklocks"))
		if err != nil {
			return err
		}
		observers = append(observers, o)
	}
	var observed []zklocks.ConnectOption // defaults of all locks on the connection
	for _, o := range observers {
		observed = append(observed, zklocks.WithObserver(o))
	}
	list, chroot, err := zklocks.ParseServers(*servers)
	if err != nil {
		return err
	}
	conn, err := zklocks.Connect(ctx, list, 10*time.Second, append(observed, zklocks.WithChroot(chroot))...)
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
