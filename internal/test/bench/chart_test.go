package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The colors follow the reader's theme.
const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.one { stroke: #57606a; stroke-width: 1.5 }
.c1 { fill: #bc4c00 } .c2 { fill: #1a7f37 } .c3 { fill: #8250df }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.grid { stroke: #3d444d }
.one { stroke: #9198a1 }
.c1 { fill: #f0883e } .c2 { fill: #56d364 } .c3 { fill: #bc8cff }
}
</style>
`

// ratios draws a bar for each peer: how many times as fast as the peer we are, on a logarithmic
// scale that begins at "as fast". Bars to the left mean slower. It is narrow enough for a phone.
func ratios(results []result) string {
	const (
		width            = 480.0
		left, right, top = 12.0, 62.0, 74.0
		heading          = 18.0
		bar, gap         = 14.0, 10.0
	)
	colors := map[string]string{zkLock: "c1", curator: "c2", kazoo: "c3"}
	lowest, highest, height := 0.8, 10.0, top+8
	var names []string
	bars := map[string][]result{}
	for _, r := range results {
		if colors[r.peer] == "" || r.ratio == 0 {
			continue
		}
		name := r.workload.name
		if bars[name] == nil {
			names = append(names, name)
			height += heading + gap
		}
		bars[name] = append(bars[name], r)
		height += bar
		lowest, highest = min(lowest, r.ratio), max(highest, r.ratio)
	}
	highest = math.Pow(10, math.Ceil(math.Log10(highest)))
	at := func(ratio float64) float64 {
		return left + (width-left-right)*math.Log(ratio/lowest)/math.Log(highest/lowest)
	}

	var b strings.Builder
	text := func(x, y float64, anchor, class, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, html.EscapeString(s))
	}
	rect := func(x, y, width, height float64, class string) {
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>`+"\n", x, y, width, height, class)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">`+"\n", width, height, width, height)
	b.WriteString(style)
	text(left, 22, "start", "", "How many times as fast zklocks is as")
	x := left
	for _, peer := range []string{zkLock, curator, kazoo} {
		rect(x, 34, 12, 12, colors[peer])
		text(x+17, 44, "start", "", peer)
		x += 45 + 8*float64(len(peer))
	}
	for v := 1.0; v <= highest; v *= 10 {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", at(v), top-2, at(v), height-6, class)
		text(at(v), top-6, "middle", "small", number(v)+" ×")
	}
	y := top
	for _, name := range names {
		text(at(1)+5, y+13, "start", "", name)
		y += heading
		for _, r := range bars[name] {
			from, to := min(at(1), at(r.ratio)), max(at(1), at(r.ratio))
			rect(from, y, max(to-from, 1), bar-3, colors[r.peer])
			text(to+5, y+bar-4, "start", "small", times(r.ratio)+" ×")
			y += bar
		}
		y += gap
	}
	b.WriteString("</svg>\n")
	return b.String()
}
