// Picture draws the dashboard of the metrics, with the figures of a real run: it starts a
// ZooKeeper, works under locks, reads its metrics twice a second, cuts the connection for a while,
// and deletes a holder's node.
//
//	go run ./picture -o ../../docs/dashboard.svg
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/metrics/traffic"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/metrics"
	"github.com/zklocks/zklocks/reentrant"
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
	samples, err := run(*length)
	if err == nil {
		err = os.WriteFile(*out, []byte(picture(samples, []string{
			fmt.Sprintf("Read twice a second for %.0f s from one process with 20 goroutines, on one ZooKeeper server.", length.Seconds()),
			fmt.Sprintf("At %.0f s its connection was cut for %.0f s; at %.0f s the node of a holder was deleted by hand.",
				(*length / 3).Seconds(), outage.Seconds(), (*length * 2 / 3).Seconds()),
		})), 0o644)
	}
	if err != nil {
		log.Fatal("picture: ", err)
	}
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
	conn, err := zklocks.Connect(ctx, []string{proxy.Addr()}, 10*time.Second, zklocks.WithObserver(metrics.Observer(registry)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	worked, broken := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(worked)
		traffic.Run(ctx, conn, root)
	}()
	defer func() { <-worked }()
	go func() { broken <- breakThings(ctx, proxy, server.Addr(), length) }()

	var samples []sample
	began := time.Now()
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return samples, <-broken
		case <-tick.C:
			s, err := read(registry)
			if err != nil {
				return nil, err
			}
			s.at = time.Since(began).Seconds()
			samples = append(samples, s)
		}
	}
}

// breakThings cuts the connection for a while, and later deletes a holder's node.
func breakThings(ctx context.Context, proxy *proxy.Proxy, server string, length time.Duration) error {
	conn, err := zklocks.Connect(ctx, []string{server}, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	time.Sleep(length / 3)
	proxy.Refuse()
	time.Sleep(outage)
	if err := proxy.Accept(); err != nil {
		return err
	}
	time.Sleep(length/3 - outage)
	for ctx.Err() == nil { // the holder may release meanwhile
		queue, err := reentrant.New(conn, root+"/tree").Queue(ctx)
		if err != nil {
			return err
		}
		if len(queue) > 0 {
			if err := conn.Client().Delete(queue[0].Path, -1); err != zk.ErrNoNode {
				return err
			}
		}
	}
	return errors.New("no holder was found")
}

// sample has the sums of all metrics, by name and kind, as in "zklocks_waiting read", and by name
// alone. Of a histogram it has the number of observations, and their sum as "..._sum".
type sample struct {
	at     float64 // seconds since the beginning
	values map[string]float64
}

func read(registry *prometheus.Registry) (sample, error) {
	s := sample{values: map[string]float64{}}
	families, err := registry.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			names := []string{""}
			for _, l := range m.GetLabel() {
				if l.GetName() == "kind" {
					names = append(names, " "+l.GetValue())
				}
			}
			for _, kind := range names {
				s.values[f.GetName()+kind] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				s.values[f.GetName()+"_sum"+kind] += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return s, err
}

// mean returns the mean of a value over the last seconds.
func mean(samples []sample, i int, name string) float64 {
	some, sum := samples[max(0, i-10):i+1], 0.0
	for _, s := range some {
		sum += s.values[name]
	}
	return sum / float64(len(some))
}

// growth returns by how much a value has grown in the last seconds.
func growth(samples []sample, i int, name string) float64 {
	return samples[i].values[name] - samples[max(0, i-4)].values[name]
}

// line is a curve: a value for each sample.
type line struct {
	name   string
	values []float64
}

type panel struct {
	title, unit string
	lines       []line
}

// panels returns the charts of dashboard.json, with means in place of quantiles.
func panels(samples []sample) []panel {
	curve := func(name string, of func(i int) float64) (l line) {
		l.name = name
		for i := range samples {
			l.values = append(l.values, of(i))
		}
		return l
	}
	per := func(of func(i int, kind string) float64) (lines []line) {
		for _, kind := range []string{"read", "write", "permits", "mutex"} {
			lines = append(lines, curve(kind, func(i int) float64 { return of(i, " "+kind) }))
		}
		return lines
	}
	took := func(name string) []line {
		return per(func(i int, kind string) float64 {
			return 1000 * growth(samples, i, name+"_sum"+kind) / max(1, growth(samples, i, name+kind))
		})
	}
	var trouble []line
	for _, name := range []string{"failed", "retries", "lost"} {
		trouble = append(trouble, curve(name, func(i int) float64 { return samples[i].values["zklocks_"+name+"_total"] }))
	}
	return []panel{
		{"Waiting", "calls", per(func(i int, kind string) float64 { return mean(samples, i, "zklocks_waiting"+kind) })},
		{"Holding", "holds", per(func(i int, kind string) float64 { return mean(samples, i, "zklocks_holding"+kind) })},
		{"Grants", "per second", per(func(i int, kind string) float64 {
			return growth(samples, i, "zklocks_wait_seconds"+kind) / max(0.5, samples[i].at-samples[max(0, i-4)].at)
		})},
		{"Wait until the grant", "mean, ms", took("zklocks_wait_seconds")},
		{"Hold", "mean, ms", took("zklocks_hold_seconds")},
		{"Trouble", "since the beginning", trouble},
	}
}

const (
	width, height = 290, 130 // of a chart, without its frame
	left, top     = 48, 34
	right, bottom = 22, 46
	columns       = 2
)

// style has the colors for light and dark pages. The picture has no background.
const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #57606a }
.title { font-weight: bold }
.grid { stroke: #d0d7de }
.line { fill: none; stroke-width: 1.5 }
.c0 { stroke: #0969da } .c1 { stroke: #bc4c00 } .c2 { stroke: #1a7f37 } .c3 { stroke: #8250df }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.grid { stroke: #3d444d }
.c0 { stroke: #58a6ff } .c1 { stroke: #f0883e } .c2 { stroke: #56d364 } .c3 { stroke: #bc8cff }
}
</style>
`

// picture draws the panels, and lines of text below them.
func picture(samples []sample, text []string) string {
	all := panels(samples)
	w, h := columns*(left+width+right), (len(all)+1)/columns*(top+height+bottom)+60
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" aria-label="a dashboard">`+"\n%s", w, h, w, style)
	for i, p := range all {
		x, y := i%columns*(left+width+right)+left, i/columns*(top+height+bottom)+top
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", x, y)
		p.draw(&b, samples)
		b.WriteString("</g>\n")
	}
	for row, words := range text {
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="small">%s</text>`+"\n", left, h-42+16*row, words)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) draw(b *strings.Builder, samples []sample) {
	highest := 1.0
	for _, l := range p.lines {
		for _, v := range l.values {
			highest = max(highest, v)
		}
	}
	step := 1.0 // 1, 2, 5, 10, 20, ...
	for factor := 0; step*4 < highest; factor++ {
		step *= []float64{2, 2.5, 2}[factor%3]
	}
	highest = 4 * step
	last := samples[len(samples)-1].at
	px := func(at float64) float64 { return at / last * width }
	py := func(v float64) float64 { return height - v/highest*height }

	fmt.Fprintf(b, `<text x="0" y="-12"><tspan class="title">%s</tspan> (%s)</text>`+"\n", p.title, p.unit)
	for v := 0.0; v <= highest; v += step {
		fmt.Fprintf(b, `<path d="M0 %.1fH%d" class="grid"/><text x="-6" y="%.1f" text-anchor="end" class="small">%g</text>`+"\n", py(v), width, py(v)+4, v)
	}
	for at := 0.0; at <= last; at += 20 {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" class="small">%g s</text>`+"\n", px(at), height+16, at)
	}
	for i, l := range p.lines {
		var points strings.Builder
		for j, v := range l.values {
			fmt.Fprintf(&points, "%.1f,%.1f ", px(samples[j].at), py(v))
		}
		fmt.Fprintf(b, `<polyline points="%s" class="line c%d"/>`+"\n", strings.TrimSpace(points.String()), i)
		fmt.Fprintf(b, `<path d="M%d %dh12" class="line c%d"/><text x="%d" y="%d" class="small">%s</text>`+"\n", i*75, height+31, i, i*75+17, height+35, l.name)
	}
}
