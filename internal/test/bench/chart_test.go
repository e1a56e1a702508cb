package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// drawing is an SVG picture. Its colours follow the reader's theme, light or dark; it has no
// background of its own.
type drawing struct {
	width, height float64
	body          strings.Builder
}

const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #57606a }
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

// legend names those peers that the chart shows.
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

// ratios draws how many times as fast as each peer we are, a bar for each, on a logarithmic scale
// that begins at "as fast": to the left is slower.
func ratios(results []result) string {
	const (
		left, right, top = 300.0, 80.0, 70.0
		bar, gap         = 14.0, 12.0
	)
	d := &drawing{width: 920}
	lowest, highest := 0.5, 10.0
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
	d.height = top + 20
	for _, name := range names {
		d.height += float64(len(strips[name]))*bar + gap
	}
	d.legend(left, 24, []string{zkLock, curator, kazoo})
	d.text(10, 24, "start", "", "times as fast as")
	for v := 1.0; v <= highest; v *= 10 {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		d.line(at(v), top-12, at(v), d.height-14, class)
		d.text(at(v), top-18, "middle", "small", number(v)+" ×")
	}
	y := top
	for _, name := range names {
		d.text(left-14, y+float64(len(strips[name]))*bar/2+4, "end", "", name)
		for _, s := range strips[name] {
			from, to := min(at(1), at(s.ratio)), max(at(1), at(s.ratio))
			d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>`, from, y, max(to-from, 1), bar-3, colours[s.peer])
			d.text(to+6, y+bar-4, "start", "small", times(s.ratio))
			y += bar
		}
		y += gap
	}
	return d.String()
}

// point is one measurement of a line chart.
type point struct{ x, y float64 }

// growth draws how a cost grows with the number of waiters, on a logarithmic scale; the cost's
// scale is linear and begins at 0.
func growth(title string, peers []string, series map[string][]point, unit func(float64) string) string {
	const left, right, top, bottom = 80.0, 90.0, 80.0, 50.0
	d := &drawing{width: 720, height: 360}
	last, most := 10.0, 0.0
	for _, points := range series {
		for _, p := range points {
			last, most = max(last, p.x), max(most, p.y)
		}
	}
	step := niceStep(most)
	most = max(math.Ceil(most/step), 1) * step
	x := func(v float64) float64 { return left + (d.width-left-right)*math.Log10(v)/math.Log10(last) }
	y := func(v float64) float64 { return d.height - bottom - (d.height-top-bottom)*v/most }

	d.text(10, 24, "start", "", title)
	d.legend(left, 50, peers)
	for v := 0.0; v <= most+step/2; v += step {
		d.line(left, y(v), d.width-right, y(v), "grid")
		d.text(left-8, y(v)+4, "end", "small", unit(v))
	}
	for v := 1.0; v <= last; v *= 10 {
		d.line(x(v), y(0), x(v), y(0)+5, "one")
		d.text(x(v), y(0)+20, "middle", "small", number(v))
	}
	d.text((left+d.width-right)/2, d.height-8, "middle", "small", "waiting behind the holder")
	for _, peer := range peers {
		var path []string
		for _, p := range series[peer] {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
			d.add(`<circle cx="%.1f" cy="%.1f" r="3.5" class="%s"/>`, x(p.x), y(p.y), colours[peer])
		}
		if n := len(series[peer]); n > 0 {
			d.add(`<polyline points="%s" class="%s line"/>`, strings.Join(path, " "), colours[peer])
			end := series[peer][n-1]
			d.text(x(end.x)+8, y(end.y)+4, "start", "small", unit(end.y))
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
