package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figures are measured in a round.
type figures [6]float64

const (
	speed         = iota // operations per second
	p50                  // from the call to the grant, in microseconds
	p99                  //
	requests             // per cycle, as counted by the server
	notifications        // the same
	processor            // the server's processor time per cycle, in microseconds; 0: unknown
)

// result is a row of the table.
type result struct {
	workload workload
	peer     string
	rounds   []figures
	errors   int64
	median   figures // of the rounds
	// ratio is how many times as fast as this peer the workload's first peer is; 0: unknown. It is
	// the median of the rounds' ratios, because other load on the machine affects both peers of a
	// round.
	ratio float64
}

// summarize computes the medians and ratios.
func summarize(results []result) {
	for i := range results {
		r := &results[i]
		for f := range r.median {
			var values []float64
			for _, round := range r.rounds {
				values = append(values, round[f])
			}
			r.median[f] = median(values)
		}
		first, _ := find(results, r.workload.name, r.workload.peers[0])
		var ratios []float64
		for i := range min(len(r.rounds), len(first.rounds)) {
			if r.peer != first.peer && r.rounds[i][speed] > 0 {
				ratios = append(ratios, first.rounds[i][speed]/r.rounds[i][speed])
			}
		}
		r.ratio = median(ratios)
	}
}

func find(results []result, workload, peer string) (result, bool) {
	i := slices.IndexFunc(results, func(r result) bool { return r.workload.name == workload && r.peer == peer })
	if i < 0 {
		return result{}, false
	}
	return results[i], true
}

// median returns the median. It sorts values.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

// table returns all figures as text.
func table(results []result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "workload\tpeer\toperations/s\tslowest to fastest round\tp50\tp99\tours / peer\t"+
		"requests per cycle\tnotifications per cycle\tserver's processor per cycle")
	for _, r := range results {
		var speeds []float64
		for _, round := range r.rounds {
			speeds = append(speeds, round[speed])
		}
		errors := ""
		if r.errors > 0 {
			errors = fmt.Sprintf(" (%d errors)", r.errors)
		}
		fmt.Fprintln(w, strings.Join([]string{
			r.workload.name, r.peer + errors, number(r.median[speed]), number(slices.Min(speeds)) + " to " + number(slices.Max(speeds)),
			duration(r.median[p50]), duration(r.median[p99]), times(r.ratio),
			decimals(r.median[requests], 2), decimals(r.median[notifications], 2), duration(r.median[processor]),
		}, "\t"))
	}
	w.Flush()
	return b.String()
}

func rounded(v, unit float64) float64 { return math.Round(v/unit) * unit }

func decimals(v float64, n int) string { return strconv.FormatFloat(v, 'f', n, 64) }

// digits formats a number with three significant digits.
func digits(v float64) string {
	switch {
	case v < 10:
		return decimals(v, 2)
	case v < 100:
		return decimals(v, 1)
	}
	return number(v)
}

// times formats a ratio.
func times(ratio float64) string {
	if ratio == 0 {
		return "–"
	}
	return digits(ratio)
}

// number formats a whole number with commas.
func number(v float64) string {
	text := decimals(v, 0)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// duration formats microseconds with three significant digits.
func duration(micros float64) string {
	switch {
	case micros <= 0:
		return "–"
	case micros < 1:
		return digits(micros*1000) + " ns"
	case micros < 1000:
		return digits(micros) + " µs"
	case micros < 1e6:
		return digits(micros/1000) + " ms"
	}
	return digits(micros/1e6) + " s"
}
