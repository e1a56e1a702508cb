package traffic

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/metrics"
	"github.com/zklocks/zklocks/zktest"
)

// All kinds of locks are held and waited for, through a lost connection. When the traffic has
// ended, no call waits and no lock is held.
func TestTheTrafficIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		host := zktest.NewServer(t).Host("a")
		conn := host.Connect(t, 10*time.Second, zklocks.WithObserver(metrics.Observer(registry)))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		go func() {
			time.Sleep(10 * time.Second) // virtual
			host.Cut()
		}()
		Run(ctx, conn, "/traffic")
		synctest.Wait()

		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(map[string]uint64)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				switch f.GetName() {
				case "zklocks_waiting", "zklocks_holding":
					if n := m.GetGauge().GetValue(); n != 0 {
						t.Errorf("%s is %v at the end: %v", f.GetName(), n, m.GetLabel())
					}
				case "zklocks_hold_seconds", "zklocks_ahead":
					for _, l := range m.GetLabel() {
						if l.GetName() == "kind" {
							ended[f.GetName()+" "+l.GetValue()] += m.GetHistogram().GetSampleCount()
						}
					}
				}
			}
		}
		for _, what := range []string{
			"zklocks_hold_seconds read", "zklocks_hold_seconds write", "zklocks_hold_seconds permits", "zklocks_hold_seconds mutex",
			"zklocks_ahead write", "zklocks_ahead permits",
		} {
			if ended[what] == 0 {
				t.Errorf("%s has counted nothing: %v", what, ended)
			}
		}
	})
}
