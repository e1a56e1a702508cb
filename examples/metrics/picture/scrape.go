package main

import (
	"fmt"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

type sample struct {
	at       float64 // seconds since the beginning
	families map[string]*dto.MetricFamily
}

func scrape(url string) (sample, error) {
	resp, err := http.Get(url)
	if err != nil {
		return sample{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sample{}, fmt.Errorf("%s: %s", url, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	return sample{families: families}, err
}

// value returns the sum of a gauge or a counter, or of the observations of a histogram, over all
// series with this label; "" means all series.
func (s sample) value(name, label string) float64 {
	sum := 0.0
	for _, m := range s.families[name].GetMetric() {
		if has(m, label) {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// buckets returns the sum of the histograms of all series with this label.
func (s sample) buckets(name, label string) map[float64]float64 {
	sum := make(map[float64]float64)
	for _, m := range s.families[name].GetMetric() {
		if has(m, label) {
			for _, b := range m.GetHistogram().GetBucket() {
				sum[b.GetUpperBound()] += float64(b.GetCumulativeCount())
			}
		}
	}
	return sum
}

// has reports whether a series has a label, given as name=value.
func has(m *dto.Metric, label string) bool {
	name, value, _ := strings.Cut(label, "=")
	for _, l := range m.GetLabel() {
		if l.GetName() == name && l.GetValue() == value {
			return true
		}
	}
	return label == ""
}
