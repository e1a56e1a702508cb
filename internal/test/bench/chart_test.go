package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// drawing is an SVG picture without a background. Its colors follow the reader's theme.
type drawing struct {
	width, height float64
	body          strings.Builder
}

const narrow = 480 // pixels: legible on a phone at three quarters

const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.one { stroke: #57606a; stroke-width: 1.5 }
.line { fill: none; stroke-width: 2 }
.c0 { fill: #0969da; stroke: #0969da } .c1 { fill: #bc4c00; stroke: #bc4c00 }
.c2 { fill: #1a7f37; stroke: #1a7f37 } .c3 { fill: #8250df; stroke: #8250df }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.grid { stroke: #3d444d }
.one { stroke: #9198a1 }
.c0 { fill: #58a6ff; stroke: #58a6ff } .c1 { fill: #f0883e; stroke: #f0883e }
.c2 { fill: #56d364; stroke: #56d364 } .c3 { fill: #bc8cff; stroke: #bc8cff }
}
.line { fill: none }
</style>
`

// colours are the same in all charts.
var colours = map[string]string{ours: "c0", zkLock: "c1", curator: "c2", kazoo: "c3"}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.body, format+"\n", args...) }

func (d *drawing) text(x, y float64, anchor, class, s string) {
	d.add(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(s))
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// legend lists the peers in the chart.
func (d *drawing) legend(x, y float64, peers []string) {
	for _, p := range peers {
		d.add(`<rect x="%.1f" y="%.1f" width="12" height="12" class="%s"/>`, x, y-10, colours[p])
		d.text(x+17, y, "start", "", p)
		x += 45 + 8*float64(len(p))
	}
}

func (d *drawing) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">`+"\n",
		d.width, d.height, d.width, d.height) + style + d.body.String() + "</svg>\n"
}

// ratios draws a bar for each peer: how many times as fast as the peer we are, on a logarithmic
// scale that begins at "as fast". Bars to the left mean slower. It is narrow enough for a phone.
func ratios(results []result) string {
	const (
		left, right, top = 12.0, 62.0, 74.0
		heading          = 18.0
		bar, gap         = 14.0, 10.0
	)
	d := &drawing{width: narrow}
	lowest, highest := 0.8, 10.0
	type strip struct {
		peer  string
		ratio float64
	}
	var names []string
	strips := map[string][]strip{}
	for _, r := range results {
		own, there := find(results, r.workload.name, ours)
		if !there || colours[r.peer] == "" || r.peer == ours || r.perSecond == 0 || own.perSecond == 0 {
			continue
		}
		s := strip{peer: r.peer, ratio: own.against(r)}
		if strips[r.workload.name] == nil {
			names = append(names, r.workload.name)
		}
		strips[r.workload.name] = append(strips[r.workload.name], s)
		lowest, highest = min(lowest, s.ratio), max(highest, s.ratio)
	}
	highest = math.Pow(10, math.Ceil(math.Log10(highest)))
	at := func(ratio float64) float64 {
		return left + (d.width-left-right)*math.Log(ratio/lowest)/math.Log(highest/lowest)
	}
	d.height = top + 8
	for _, name := range names {
		d.height += heading + float64(len(strips[name]))*bar + gap
	}
	d.text(left, 22, "start", "", "How many times as fast zklocks is as")
	d.legend(left, 44, []string{zkLock, curator, kazoo})
	for v := 1.0; v <= highest; v *= 10 {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		d.line(at(v), top-2, at(v), d.height-6, class)
		d.text(at(v), top-6, "middle", "small", number(v)+" ×")
	}
	y := top
	for _, name := range names {
		d.text(at(1)+5, y+13, "start", "", name)
		y += heading
		for _, s := range strips[name] {
			from, to := min(at(1), at(s.ratio)), max(at(1), at(s.ratio))
			d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>`, from, y, max(to-from, 1), bar-3, colours[s.peer])
			d.text(to+5, y+bar-4, "start", "small", times(s.ratio))
			y += bar
		}
		y += gap
	}
	return d.String()
}

// gaps are the dashes of the lines of a chart.
var gaps = []string{"", "", ` stroke-dasharray="7 9"`}

// point is one measurement of a line chart.
type point struct{ x, y float64 }

// growth draws how a cost grows with the number of waiters, on a logarithmic scale; the cost's
// scale is linear and begins at 0. The third line has gaps, so that the second line is visible
// under it.
func growth(title string, peers []string, series map[string][]point, unit func(float64) string, notes ...string) string {
	const left, right, top, bottom = 62.0, 62.0, 62.0, 44.0
	d := &drawing{width: narrow, height: 320 + 16*float64(len(notes))}
	floor := d.height - bottom - 16*float64(len(notes))
	last, most := 10.0, 0.0
	for _, points := range series {
		for _, p := range points {
			last, most = max(last, p.x), max(most, p.y)
		}
	}
	step := niceStep(most)
	most = max(math.Ceil(most/step), 1) * step
	x := func(v float64) float64 { return left + (d.width-left-right)*math.Log10(v)/math.Log10(last) }
	y := func(v float64) float64 { return floor - (floor-top)*v/most }

	d.text(10, 22, "start", "", title)
	d.legend(left, 44, peers)
	for v := 0.0; v <= most+step/2; v += step {
		d.line(left, y(v), d.width-right, y(v), "grid")
		d.text(left-8, y(v)+4, "end", "small", unit(v))
	}
	for v := 1.0; v <= last; v *= 10 {
		d.line(x(v), y(0), x(v), y(0)+5, "one")
		d.text(x(v), y(0)+20, "middle", "small", number(v))
	}
	d.text((left+d.width-right)/2, floor+36, "middle", "small", "waiting behind the holder")
	for i, note := range notes {
		d.text(10, floor+56+16*float64(i), "start", "small", note)
	}
	for i, peer := range peers {
		var path []string
		for _, p := range series[peer] {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
			d.add(`<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"/>`, x(p.x), y(p.y), 5-float64(i), colours[peer])
		}
		if n := len(series[peer]); n > 0 {
			d.add(`<polyline points="%s" class="%s line"%s/>`, strings.Join(path, " "), colours[peer], gaps[i])
			end := series[peer][n-1]
			d.text(x(end.x)+5, y(end.y)-7, "start", "small", unit(end.y))
		}
	}
	return d.String()
}

// niceStep divides a scale into three to six parts.
func niceStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.2, 0.25, 0.5, 1, 2} {
		if most/(step*f) <= 6 {
			return step * f
		}
	}
	return step
}
