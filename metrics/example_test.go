package metrics_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/metrics"
)

// All locks on the connection are counted.
func ExampleObserver() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := zklocks.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, 10*time.Second,
		zklocks.WithObserver(metrics.Observer(prometheus.DefaultRegisterer)))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	http.Handle("/metrics", promhttp.Handler())
}
