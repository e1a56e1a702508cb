package main

import (
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strings"
)

// line is one curve: a value for each sample.
type line struct {
	name   string
	values []float64
}

// panel is one chart.
type panel struct {
	title, unit string
	lines       []line
}

var kinds = []string{"read", "write", "permits", "mutex"}

// panels are the same questions that dashboard.json asks.
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
	now := func(name string) func(int, string) float64 {
		return func(i int, kind string) float64 { return samples[i].value(name, "kind="+kind) }
	}
	// Rates and quantiles look at the last two seconds.
	const window = 4
	past := func(i int) int { return max(0, i-window) }
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
		{"Waiting", "calls", per(now("zklocks_waiting"))},
		{"Holding", "holds", per(now("zklocks_holding"))},
		{"Grants", "per second", per(rate)},
		{"Wait until the grant, 99 of 100", "ms", per(most("zklocks_wait_seconds"))},
		{"Hold, 99 of 100", "ms", per(most("zklocks_hold_seconds"))},
		{"Trouble", "since the beginning", trouble},
	}
}

// quantile is how Prometheus estimates one: by a straight line within a bucket. Where nothing was
// observed there is no value.
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
	width, height = 460, 170 // of a chart, without its frame
	left, top     = 52, 34
	right, bottom = 16, 44
	columns       = 2
)

var colors = []string{"#2f6fb0", "#d1495b", "#3d8f5f", "#b07d2b"}

// picture draws the panels.
func picture(samples []sample, caption string) string {
	all := panels(samples)
	w, h := columns*(left+width+right), (len(all)+1)/columns*(top+height+bottom)+48
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#333">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", w, h)
	for i, p := range all {
		x, y := i%columns*(left+width+right)+left, i/columns*(top+height+bottom)+top
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", x, y)
		p.draw(&b, samples)
		b.WriteString("</g>\n")
	}
	words, row := "", 0
	for _, word := range strings.Fields(caption) {
		if len(words)+len(word) > 150 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#666">%s</text>`+"\n", left, h-28+16*row, html.EscapeString(words))
			words, row = "", row+1
		}
		words += word + " "
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#666">%s</text>`+"\n</svg>\n", left, h-28+16*row, html.EscapeString(strings.TrimSpace(words)))
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

	fmt.Fprintf(b, `<text x="0" y="-12" font-weight="bold">%s<tspan font-weight="normal" fill="#666"> (%s)</tspan></text>`+"\n", p.title, p.unit)
	for v := 0.0; v <= highest; v += step {
		fmt.Fprintf(b, `<path d="M0 %.1fH%d" stroke="#e3e3e3"/><text x="-6" y="%.1f" text-anchor="end">%g</text>`+"\n", py(v), width, py(v)+4, v)
	}
	for at := 0.0; at <= last; at += 10 {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%g s</text>`+"\n", px(at), height+16, at)
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
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", d, colors[i])
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="3" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", i*90, height+30, colors[i], i*90+17, height+35, l.name)
	}
}

// roundUp is the next of 1, 2, 5, 10, 20, ...
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*power {
			return max(1, n*power)
		}
	}
	return max(1, 10*power)
}
