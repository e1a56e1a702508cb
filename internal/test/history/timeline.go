package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	barWidth      = 48
	maxNeighbours = 6
)

// timeline draws the holds of a violation, and some of the others on the path at that time:
//
//	> a exclusive, token 5  |=======|         0s .. 1.000001s
//	> b exclusive, token 7         |========| 1s .. 2s
func (r *Report) timeline(v Violation) string {
	from, to := v.Holds[0].Acquired, int64(0)
	for _, h := range v.Holds {
		from = min(from, h.Acquired)
		to = max(to, h.Acquired, h.Ended)
	}
	shown := slices.Clone(v.Holds)
	broken := len(shown)
	for _, h := range r.all {
		if len(shown) == broken+maxNeighbours {
			break
		}
		if h.Path == v.Path && h.Acquired <= to && h.until() >= from && !slices.Contains(shown, h) {
			shown = append(shown, h)
		}
	}
	neighbour := func(h Hold) bool { return !slices.Contains(v.Holds, h) }
	slices.SortStableFunc(shown, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Acquired, b.Acquired), cmp.Compare(a.until(), b.until()))
	})
	label := 0
	for _, h := range shown {
		label = max(label, len(h.String()))
	}
	var b strings.Builder
	for i, h := range shown {
		mark := ">"
		if neighbour(h) {
			mark = " "
		}
		end := "..."
		if h.Ended != 0 {
			end = r.since(h.Ended).String()
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %s %-*s  %s  %v .. %s", mark, label, h, bar(h, from, to), r.since(h.Acquired), end)
	}
	return b.String()
}

func (r *Report) since(instant int64) time.Duration { return time.Duration(instant - r.start) }

// bar is h between from and to. A hold is never drawn shorter than one column.
func bar(h Hold, from, to int64) string {
	column := func(instant int64) int {
		if to <= from {
			return 0
		}
		share := float64(min(max(instant, from), to)-from) / float64(to-from)
		return int(share * (barWidth - 1))
	}
	first := column(h.Acquired)
	last := max(first, column(h.until()))
	return strings.Repeat(" ", first) + strings.Repeat("=", last-first+1) + strings.Repeat(" ", barWidth-1-last)
}

// overlap says how long two holds last together.
func overlap(a, b Hold) string {
	end := min(a.until(), b.until())
	if end == math.MaxInt64 {
		return "to the end"
	}
	return time.Duration(end - max(a.Acquired, b.Acquired)).String()
}
