package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is a result as text.
type row struct {
	Workload, Peer                    string
	PerSecond, Range, P50, P99, Ratio string
	Requests, Notifications           string
	Processor, Own                    string
	Than                              []string // only in an overview: the ratios to compared
}

// compared are the columns of an overview. A workload measures at most one of the peers in a
// column.
var compared = [][]string{{zkLock}, {curator}, {kazoo}, {bare, looking}}

// overview returns our row of each workload, with the ratios to the others.
func overview(all []row) []row {
	var some []row
	for _, own := range all {
		if own.Peer != ours {
			continue
		}
		for _, peers := range compared {
			ratio := "–"
			for _, r := range all {
				if r.Workload == own.Workload && slices.Contains(peers, r.Peer) {
					ratio = strings.TrimSuffix(r.Ratio, " ×")
				}
			}
			own.Than = append(own.Than, ratio)
		}
		some = append(some, own)
	}
	return some
}

var columns = []string{
	"workload", "peer", "operations/s", "slowest to fastest round", "p50", "p99", "ours / peer",
	"requests per cycle", "notifications per cycle", "server's processor per cycle", "own",
}

func (r row) cells() []string {
	return []string{
		r.Workload, r.Peer, r.PerSecond, r.Range, r.P50, r.P99, r.Ratio,
		r.Requests, r.Notifications, r.Processor, r.Own,
	}
}

// rows returns each result as text, with the ratio of our speed to it.
func rows(results []result) []row {
	var all []row
	for _, r := range results {
		out := row{
			Workload:      r.workload.name,
			Peer:          r.peer,
			PerSecond:     number(r.perSecond),
			Range:         number(r.slowest) + " to " + number(r.fastest),
			P50:           duration(r.P50),
			P99:           duration(r.P99),
			Requests:      perCycle(r.requests),
			Notifications: perCycle(r.notifications),
			Processor:     duration(r.processor),
			Own:           duration(r.own),
		}
		own, there := find(results, r.workload.name, ours)
		if r.peer != ours && there {
			out.Ratio = times(own.against(r))
		}
		if r.Errors > 0 {
			out.Peer += fmt.Sprintf(" (%d errors)", r.Errors)
		}
		all = append(all, out)
	}
	return all
}

func find(results []result, workload, peer string) (result, bool) {
	i := slices.IndexFunc(results, func(r result) bool { return r.workload.name == workload && r.peer == peer })
	if i < 0 {
		return result{}, false
	}
	return results[i], true
}

func printTable(w io.Writer, results []result) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(columns, "\t"))
	for _, r := range rows(results) {
		fmt.Fprintln(tw, strings.Join(r.cells(), "\t"))
	}
	tw.Flush()
}

func roundTo(v, steps float64) float64 { return math.Round(v*steps) / steps }

// perCycle has two decimals, to distinguish 2.0 from 2.04.
func perCycle(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func times(ratio float64) string {
	switch {
	case math.IsInf(ratio, 0) || math.IsNaN(ratio):
		return "-"
	case ratio >= 100:
		return number(ratio) + " ×"
	case ratio >= 10:
		return strconv.FormatFloat(ratio, 'f', 1, 64) + " ×"
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64) + " ×"
}

// number formats a whole number with commas.
func number(v float64) string {
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// duration formats microseconds with three significant digits.
func duration(micros float64) string {
	switch {
	case micros <= 0:
		return "-"
	case micros < 1:
		return strconv.FormatFloat(micros*1000, 'f', 0, 64) + " ns"
	case micros < 1000:
		return digits(micros) + " µs"
	case micros < 1e6:
		return digits(micros/1000) + " ms"
	}
	return digits(micros/1e6) + " s"
}

func digits(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
