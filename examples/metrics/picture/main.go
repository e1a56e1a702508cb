// Picture draws the dashboard of the metrics, with the figures of a real run: it starts a
// ZooKeeper, works under locks, scrapes itself by HTTP twice a second, cuts the connection for a
// while, and deletes a holder's node.
//
//	go run ./picture -o ../../docs/dashboard.svg
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/metrics/traffic"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/metrics"
)

const (
	every  = 500 * time.Millisecond
	outage = 2 * time.Second
	root   = "/picture"
)

var (
	out    = flag.String("o", "dashboard.svg", "file to write")
	length = flag.Duration("for", time.Minute, "how long to work")
)

func main() {
	flag.Parse()
	if err := draw(); err != nil {
		log.Fatal("picture: ", err)
	}
}

func draw() error {
	samples, err := run(*length)
	if err != nil {
		return err
	}
	caption := fmt.Sprintf("Scraped twice a second for %.0f s from one process with 20 goroutines, on one ZooKeeper server. "+
		"At %.0f s its connection was cut for %.0f s; at %.0f s the node of a holder was deleted by hand.",
		length.Seconds(), (*length / 3).Seconds(), outage.Seconds(), (*length * 2 / 3).Seconds())
	return os.WriteFile(*out, []byte(picture(samples, caption)), 0o644)
}

// run works, injects two faults, and returns the samples.
func run(length time.Duration) ([]sample, error) {
	server, err := realzk.Start(realzk.Options{})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	proxy, err := proxy.New(server.Addr())
	if err != nil {
		return nil, err
	}
	defer proxy.Close()
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	registry := prometheus.NewRegistry()
	observer := metrics.Observer(registry)
	conn, err := zklocks.Connect(ctx, []string{proxy.Addr()}, 10*time.Second, zklocks.WithObserver(observer))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	hand, err := zklocks.Connect(ctx, []string{server.Addr()}, 10*time.Second)
	if err != nil {
		return nil, err
	}
	defer hand.Close()

	metrics := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer metrics.Close()

	worked := make(chan struct{})
	go func() {
		defer close(worked)
		traffic.Run(ctx, conn, root)
	}()
	defer func() { <-worked }()
	broken := make(chan error, 1)
	go func() { broken <- breakThings(ctx, proxy, hand.Client(), length) }()

	var samples []sample
	began := time.Now()
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return samples, <-broken
		case <-tick.C:
			s, err := scrape(metrics.URL)
			if err != nil {
				return nil, err
			}
			s.at = time.Since(began).Seconds()
			samples = append(samples, s)
		}
	}
}

// breakThings cuts the connection for a while, and later deletes a holder's node.
func breakThings(ctx context.Context, proxy *proxy.Proxy, hand *zk.Conn, length time.Duration) error {
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(length / 3)
	proxy.Refuse()
	wait(outage)
	if err := proxy.Accept(); err != nil {
		return err
	}
	wait(length/3 - outage)
	for range 1000 { // the holder's node may be deleted meanwhile
		children, _, err := hand.Children(root + "/tree")
		if err != nil && err != zk.ErrNoNode {
			return err
		}
		first, number := "", "9"
		for _, c := range children {
			if n := c[strings.LastIndexByte(c, '-')+1:]; n < number {
				first, number = c, n
			}
		}
		if first == "" {
			continue
		}
		if err := hand.Delete(root+"/tree/"+first, -1); err != zk.ErrNoNode {
			return err
		}
	}
	return fmt.Errorf("no holder was found")
}
