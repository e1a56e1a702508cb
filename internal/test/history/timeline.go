package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Event is something other than a hold that happened: a fault.
type Event struct {
	At, Over int64 // Over is 0 while it lasts
	Text     string
}

const (
	linesBefore    = 30
	linesAfter     = 15
	timelineBefore = int64(1500 * time.Millisecond)
	timelineAfter  = int64(300 * time.Millisecond)
)

// Timeline lists, in order, when holds began and until when their holders were sure of them, and
// the events around them. Times are relative to the instant at. Marked holds stand behind ">". Of
// the other holds it shows the holds nearest to the instant.
func Timeline(title string, at int64, holds, marked []Hold, events []Event) string {
	type line struct {
		at   int64
		text string
	}
	byTime := func(a, b line) int { return cmp.Compare(a.at, b.at) }
	from, to := at-timelineBefore, at+timelineAfter
	for _, h := range marked {
		from = min(from, h.Acquired)
	}
	var lines, more []line
	for _, h := range holds {
		if h.Acquired > to || h.until() < from {
			continue
		}
		// A marked hold may have been shortened since it was marked.
		same := func(m Hold) bool { return m.Who == h.Who && m.Token == h.Token && m.Acquired == h.Acquired }
		mark, asked := " ", ""
		if slices.ContainsFunc(marked, same) {
			mark = ">"
		}
		if h.Called != 0 {
			asked = fmt.Sprintf(", asked for %v", time.Duration(h.Acquired-h.Called))
		}
		lines = append(lines, line{h.Acquired, fmt.Sprintf("%s %s: %v: acquired%s", mark, h.Path, h, asked)})
		if h.Ended != 0 {
			lines = append(lines, line{h.Ended, fmt.Sprintf("%s %s: %v: sure of it until now", mark, h.Path, h)})
		}
	}
	slices.SortStableFunc(lines, byTime)
	middle, _ := slices.BinarySearchFunc(lines, at, func(l line, at int64) int { return cmp.Compare(l.at, at) })
	before, end := max(0, middle-linesBefore), min(len(lines), middle+linesAfter)
	behind := len(lines) - end
	// Keep the holds nearest to the instant, all marked holds, and all events.
	for i, l := range lines {
		if before <= i && i < end || l.text[0] == '>' {
			more = append(more, l)
		}
	}
	for _, e := range events {
		if e.At <= to && (e.Over == 0 || e.Over >= from) {
			more = append(more, line{e.At, "  " + e.Text})
			if e.Over > e.At {
				more = append(more, line{e.Over, "  " + e.Text + ": over"})
			}
		}
	}
	slices.SortStableFunc(more, byTime)
	var b strings.Builder
	b.WriteString(title)
	if before > 0 {
		fmt.Fprintf(&b, "\n\t... %d lines of holds before", before)
	}
	for _, l := range more {
		fmt.Fprintf(&b, "\n\t%12.6fs %s", time.Duration(l.at-at).Seconds(), l.text)
	}
	if behind > 0 {
		fmt.Fprintf(&b, "\n\t... %d lines of holds behind", behind)
	}
	return b.String()
}

// overlap returns how long two holds overlap.
func overlap(a, b Hold) string {
	end := min(a.until(), b.until())
	if end == math.MaxInt64 {
		return "to the end"
	}
	return time.Duration(end - max(a.Acquired, b.Acquired)).String()
}
