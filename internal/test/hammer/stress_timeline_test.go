package hammer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
)

// found is what was found wrong in one round.
type found struct {
	complaints []complaint
	orphans    []orphan
	doubts     []doubt
}

// orphan is a node that was left in a queue when all workers had ended.
type orphan struct {
	lock           // the czxid, for a token
	node    string // its name
	session int64
	seen    []string // the members that show it; if not all do, the servers differ
}

// doubt is a violation of a rule by the records, with the holds involved.
type doubt struct {
	path string
	at   int64
	text string
	by   []history.Hold
}

func (f *found) any() bool { return len(f.complaints)+len(f.orphans)+len(f.doubts) > 0 }

const (
	mostTimelines  = 5
	mostLines      = 60
	timelineBefore = 1500 * time.Millisecond
	timelineAfter  = 300 * time.Millisecond
)

// timelines returns the timelines around the first findings. holds are all of the round, by path.
func (s *stress) timelines(f *found, holds map[string][]history.Hold) string {
	var told []string
	for _, d := range f.doubts {
		told = append(told, s.timeline(d.path+": "+d.text, d.at, d.path, holds[d.path], d.by))
	}
	owners := make(map[int64]string)
	for _, all := range holds {
		for _, h := range all {
			owners[session(h.Who)] = processOf(h)
		}
	}
	for _, o := range f.orphans {
		on := holds[o.Path]
		var own []history.Hold
		// It may have been granted. If not, take the last holder of the lock.
		at := int64(0)
		for _, h := range on {
			if at = max(at, h.Acquired); h.Token == o.Token {
				own = append(own, h)
			}
		}
		if len(own) > 0 {
			at = own[0].Acquired
		}
		title := fmt.Sprintf("orphan: %s in %s, czxid %d, of session %x (%s), shown by %d of %d members: %v", o.node, o.Path, o.Token, o.session,
			cmp.Or(owners[o.session], "which has held nothing"), len(o.seen), s.Servers, o.seen)
		told = append(told, s.timeline(title, at, o.Path, on, own, owners[o.session]))
	}
	for _, c := range f.complaints {
		who, _, _ := strings.Cut(c.Text, ":")
		var own []history.Hold
		for _, all := range holds {
			for _, h := range all {
				if strings.HasPrefix(h.Who, who+"@") {
					own = append(own, h)
				}
			}
		}
		client, _, _ := strings.Cut(who, ".")
		told = append(told, s.timeline(c.Text, c.At, "", own, nil, client))
	}
	more := len(told) - mostTimelines
	if more > 0 {
		told = append(told[:mostTimelines], fmt.Sprintf("... and %d more", more))
	}
	return strings.Join(told, "\n")
}

// timeline lists, in order, which holders had the lock and until when they were sure of it, and the
// faults that the nemesis injected into them, into the lock and into the servers. Times are
// relative to the moment of the finding.
func (s *stress) timeline(title string, at int64, path string, holds, marked []history.Hold, clients ...string) string {
	from, to := at-int64(timelineBefore), at+int64(timelineAfter)
	for _, h := range marked {
		from = min(from, h.Acquired)
	}
	type line struct {
		at   int64
		text string
	}
	var lines []line
	add := func(at int64, mark, format string, args ...any) {
		lines = append(lines, line{at, mark + fmt.Sprintf(format, args...)})
	}
	for _, h := range holds {
		if h.Acquired > to || h.Ended != 0 && h.Ended < from {
			continue
		}
		mark := "  "
		for _, m := range marked {
			// The hold may have been shortened since, to where byHand took it.
			if m.Who == h.Who && m.Token == h.Token && m.Acquired == h.Acquired {
				mark = "> "
			}
		}
		lock := ""
		if path == "" {
			lock = h.Path + ": "
		}
		asked := ""
		if h.Called != 0 {
			asked = fmt.Sprintf(", asked for %v", time.Duration(h.Acquired-h.Called))
		}
		add(h.Acquired, mark, "%s%v: acquired%s", lock, h, asked)
		if h.Ended != 0 {
			add(h.Ended, mark, "%s%v: sure of it until now", lock, h)
		}
		clients = append(clients, processOf(h))
	}
	byTime := func(a, b line) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(lines, byTime)
	// Of the holds show those nearest to the moment; of the faults, all.
	middle, _ := slices.BinarySearchFunc(lines, at, func(l line, at int64) int { return cmp.Compare(l.at, at) })
	before := max(0, min(middle-mostLines*2/3, len(lines)-mostLines))
	behind := max(0, len(lines)-before-mostLines)
	lines = lines[before : len(lines)-behind]
	n := s.nemesis
	n.mu.Lock()
	for _, e := range n.events {
		if e.at > to || e.over != 0 && e.over < from || e.whom != "" && e.whom != path && !slices.Contains(clients, e.whom) {
			continue
		}
		add(e.at, "  ", "nemesis: %s", e.text)
		if e.over > e.at {
			add(e.over, "  ", "nemesis: %s: over", e.text)
		}
	}
	n.mu.Unlock()
	slices.SortStableFunc(lines, byTime)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s", s.Seed, title)
	if before > 0 {
		fmt.Fprintf(&b, "\n\t... %d lines of holds before", before)
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "\n\t%12.6fs %s", time.Duration(l.at-at).Seconds(), l.text)
	}
	if behind > 0 {
		fmt.Fprintf(&b, "\n\t... %d lines of holds behind", behind)
	}
	return b.String()
}
