package main

import (
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strings"
)

// line is a curve: a value for each sample.
type line struct {
	name   string
	values []float64
}

type panel struct {
	title, unit string
	lines       []line
}

var kinds = []string{"read", "write", "permits", "mutex"}

// panels returns the charts, with the same queries as dashboard.json.
func panels(samples []sample) []panel {
	per := func(of func(i int, kind string) float64) []line {
		var lines []line
		for _, kind := range kinds {
			l := line{name: kind}
			for i := range samples {
				l.values = append(l.values, of(i, kind))
			}
			lines = append(lines, l)
		}
		return lines
	}
	// Rates and quantiles cover the last two seconds, means the last five.
	const window, wide = 4, 10
	past := func(i int) int { return max(0, i-window) }
	mean := func(name string) func(int, string) float64 {
		return func(i int, kind string) float64 {
			some, sum := samples[max(0, i-wide):i+1], 0.0
			for _, s := range some {
				sum += s.value(name, "kind="+kind)
			}
			return sum / float64(len(some))
		}
	}
	rate := func(i int, kind string) float64 {
		a, b := samples[past(i)], samples[i]
		if a.at == b.at {
			return 0
		}
		label := "kind=" + kind
		return (b.value("zklocks_wait_seconds", label) - a.value("zklocks_wait_seconds", label)) / (b.at - a.at)
	}
	most := func(name string) func(int, string) float64 {
		return func(i int, kind string) float64 {
			label := "kind=" + kind
			return 1000 * quantile(.99, samples[past(i)].buckets(name, label), samples[i].buckets(name, label))
		}
	}
	total := func(name, label string) line {
		l := line{}
		for _, s := range samples {
			l.values = append(l.values, s.value(name, label))
		}
		return l
	}
	trouble := []line{
		total("zklocks_failed_total", ""), total("zklocks_retries_total", ""), total("zklocks_lost_total", ""),
	}
	for i, name := range []string{"failed", "retries", "lost"} {
		trouble[i].name = name
	}
	return []panel{
		{"Waiting", "calls, mean", per(mean("zklocks_waiting"))},
		{"Holding", "holds, mean", per(mean("zklocks_holding"))},
		{"Grants", "per second", per(rate)},
		{"Wait until the grant", "p99, ms", per(most("zklocks_wait_seconds"))},
		{"Hold", "p99, ms", per(most("zklocks_hold_seconds"))},
		{"Trouble", "since the beginning", trouble},
	}
}

// quantile estimates a quantile as Prometheus does: by linear interpolation within a bucket. It
// returns NaN if nothing was observed.
func quantile(q float64, before, after map[float64]float64) float64 {
	bounds := slices.Sorted(maps.Keys(after))
	if len(bounds) == 0 {
		return math.NaN()
	}
	count := func(b float64) float64 { return after[b] - before[b] }
	all := count(bounds[len(bounds)-1])
	if all == 0 {
		return math.NaN()
	}
	rank, low, below := q*all, 0.0, 0.0
	for _, b := range bounds {
		if n := count(b); n >= rank {
			if math.IsInf(b, 1) {
				return low
			}
			return low + (b-low)*(rank-below)/(n-below)
		} else {
			low, below = b, n
		}
	}
	return low
}

const (
	width, height = 290, 130 // of a chart, without its frame
	left, top     = 48, 34
	right, bottom = 22, 46
	columns       = 2
	caption       = 96 // letters in a line
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

// picture draws the panels.
func picture(samples []sample, text string) string {
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
	words, row := "", 0
	for _, word := range strings.Fields(text) {
		if len(words)+len(word) > caption {
			fmt.Fprintf(&b, `<text x="%d" y="%d" class="small">%s</text>`+"\n", left, h-42+16*row, html.EscapeString(words))
			words, row = "", row+1
		}
		words += word + " "
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" class="small">%s</text>`+"\n</svg>\n", left, h-42+16*row, html.EscapeString(strings.TrimSpace(words)))
	return b.String()
}

func (p panel) draw(b *strings.Builder, samples []sample) {
	highest := 1.0
	for _, l := range p.lines {
		for _, v := range l.values {
			if !math.IsNaN(v) {
				highest = max(highest, v)
			}
		}
	}
	step := roundUp(highest / 4)
	highest = step * math.Ceil(highest/step)
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
		d, pen := "", "M"
		for j, v := range l.values {
			if math.IsNaN(v) {
				pen = "M"
				continue
			}
			d += fmt.Sprintf("%s%.1f %.1f", pen, px(samples[j].at), py(v))
			pen = "L"
		}
		fmt.Fprintf(b, `<path d="%s" class="line c%d"/>`+"\n", d, i)
		fmt.Fprintf(b, `<path d="M%d %dh12" class="line c%d"/><text x="%d" y="%d" class="small">%s</text>`+"\n", i*75, height+31, i, i*75+17, height+35, l.name)
	}
}

// roundUp returns the next number of 1, 2, 5, 10, 20, ...
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*power {
			return max(1, n*power)
		}
	}
	return max(1, 10*power)
}
