package lockmetrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/metrics/lockmetrics"
	"github.com/zklocks/zklocks/examples/metrics/traffic"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/reentrant"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// scrape is what Prometheus would get.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// sums are the values of a metric by one of its labels; of a histogram the counts.
func sums(f *dto.MetricFamily, label string) map[string]float64 {
	all := make(map[string]float64)
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				all[l.GetValue()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return all
}

// exported are the same sums by kind, of what OpenTelemetry would export.
func exported(t *testing.T, reader sdk.Reader, name string) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range points.DataPoints {
					v, _ := p.Attributes.Value("kind")
					all[v.AsString()] += float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range points.DataPoints {
					v, _ := p.Attributes.Value("kind")
					all[v.AsString()] += float64(p.Count)
				}
			}
		}
	}
	return all
}

func TestBothCountRealTraffic(t *testing.T) {
	registry, reader := prometheus.NewRegistry(), sdk.NewManualReader()
	prom := lockmetrics.Prometheus(registry)
	otel, err := lockmetrics.OpenTelemetry(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("zklocks"))
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.For(t, realzk.Some(t)[0])
	conn, err := zklocks.Connect(t.Context(), []string{p.Addr()}, 10*time.Second, zklocks.WithObserver(prom), zklocks.WithObserver(otel))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	root := test.Path(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cut := p.Nth(proxy.CreateOp, 20, proxy.CutBefore)
	over := make(chan struct{})
	go func() { traffic.Run(ctx, conn, root); close(over) }()
	<-cut.Fired()
	test.Eventually(t, time.Minute, "each kind has been held, and waited for", func() bool {
		f := scrape(t, registry)
		holds, ahead := sums(f["zklocks_hold_seconds"], "kind"), sums(f["zklocks_ahead"], "kind")
		return len(holds) == 4 && ahead["write"] > 0 && ahead["permits"] > 0
	})
	cancel()
	<-over

	// One request is lost whose caller has time to ask again: the traffic's may give up before
	// there is a connection.
	lost := p.Next(proxy.CreateOp, proxy.CutBefore)
	mu := reentrant.New(conn, root+"/tree")
	h, err := mu.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-lost.Fired()
	// And one hold is lost.
	queue, err := mu.Queue(t.Context())
	if err != nil || len(queue) != 1 {
		t.Fatalf("the queue is %v, %v", queue, err)
	}
	if err := conn.Client().Delete(queue[0].Path, -1); err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context()); !errors.Is(err, zklocks.ErrLost) {
		t.Fatalf("a lock whose node was deleted is not lost: %v", err)
	}

	f := scrape(t, registry)
	waits, holds := sums(f["zklocks_wait_seconds"], "kind"), sums(f["zklocks_hold_seconds"], "kind")
	for _, kind := range []string{"read", "write", "permits", "mutex"} {
		if waits[kind] == 0 || waits[kind] != holds[kind] {
			t.Errorf("%s: %v grants, %v ends", kind, waits[kind], holds[kind])
		}
		for _, gauge := range []string{"zklocks_waiting", "zklocks_holding"} {
			if n := sums(f[gauge], "kind")[kind]; n != 0 {
				t.Errorf("%s of %s is %v when all is over", gauge, kind, n)
			}
		}
		for _, name := range []string{"zklocks_wait_seconds", "zklocks_hold_seconds", "zklocks_ahead", "zklocks_waiting"} {
			if p, o := sums(f[name], "kind")[kind], exported(t, reader, name)[kind]; p != o {
				t.Errorf("%s of %s: Prometheus has %v, OpenTelemetry %v", name, kind, p, o)
			}
		}
	}
	if n := sums(f["zklocks_ahead"], "kind"); n["write"] == 0 || n["permits"] == 0 {
		t.Errorf("who waited, by kind: %v", n)
	}
	if n := sums(f["zklocks_lost_total"], "kind"); n["mutex"] != 1 {
		t.Errorf("lost: %v", n)
	}
	if n := sums(f["zklocks_retries_total"], "op"); n["create"] == 0 {
		t.Errorf("retries: %v", n)
	}
	for _, path := range []string{"/index", "/tree", "/jobs/queue"} {
		test.AssertEmpty(t, conn.Client(), root+path)
	}
	dashboardKnows(t, f)
}

// dashboardKnows asserts that the dashboard asks for metrics that there are.
func dashboardKnows(t *testing.T, f map[string]*dto.MetricFamily) {
	t.Helper()
	text, err := os.ReadFile("../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) == 0 {
		t.Error("the dashboard has no panels")
	}
	rare := map[string]bool{"zklocks_failed_total": true} // only what has happened is scraped
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			names := regexp.MustCompile(`zklocks_\w+`).FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s asks for nothing of ours: %s", panel.Title, target.Expr)
			}
			for _, name := range names {
				name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
				if f[name] == nil && !rare[name] {
					t.Errorf("%s asks for %s, which there is not", panel.Title, name)
				}
			}
		}
	}
}
