// Package timeline draws the queue of a lock over time, from a run in virtual time, for the README.
package timeline

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	timeout = 10 * time.Second // session timeout
	tick    = 2 * time.Second  // ZooKeeper's default
	cutAt   = 9 * time.Second
)

// story has the actions of the processes. The lock is granted in the order of begins, to readers
// together.
var story = []process{
	{name: "web1", kind: observe.KindRead, begins: 0, works: 5 * time.Second},
	{name: "web2", kind: observe.KindRead, begins: time.Second, works: 6 * time.Second},
	{name: "index", kind: observe.KindWrite, begins: 3 * time.Second, works: time.Hour, cut: cutAt},
	{name: "web3", kind: observe.KindRead, begins: 5 * time.Second, works: 5 * time.Second},
	{name: "web4", kind: observe.KindRead, begins: 11 * time.Second, works: 6 * time.Second},
	{name: "report", kind: observe.KindWrite, begins: 13 * time.Second, works: 3 * time.Second},
}

// A process acquires the lock once. The fields after works record what happened.
type process struct {
	name          string
	kind          observe.Kind
	begins, works time.Duration
	cut           time.Duration // when its network is cut; 0: never
	granted, ends time.Duration
	lost          bool
}

// TestTimeline plays the story and compares its picture with docs/timeline.svg; TIMELINE=write
// writes the file.
func TestTimeline(t *testing.T) {
	const file = "../../../docs/timeline.svg"
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		played := play(t, v)
		for _, p := range played {
			if p.lost && passedOn(played, p.ends) < cutAt+timeout {
				t.Errorf("%s was cut off at %v, and the lock passed on at %v", p.name, cutAt, passedOn(played, p.ends))
			}
		}
		drawn := draw(played)
		if os.Getenv("TIMELINE") == "write" {
			if err := os.WriteFile(file, []byte(drawn), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if drawn != string(want) {
			t.Errorf("%s is not what the run shows: TIMELINE=write writes it", file)
		}
	})
}

// play makes each process acquire the lock on its own connection.
func play(t *testing.T, v venue.Venue) []process {
	server := v.Standalone(t, venue.Options{Tick: tick})
	played := slices.Clone(story)
	proxies := make([]*proxy.Proxy, len(played))
	conns := make([]*zklocks.Conn, len(played))
	for i := range played {
		proxies[i] = v.Proxy(t, server.Addr())
		conns[i] = locks.On(v.Connect(t, timeout, proxies[i].Addr()))
	}
	began := time.Now()
	var all sync.WaitGroup
	for i := range played {
		p := &played[i]
		lock := rwlock.New(conns[i], "/index", zklocks.WithObserver(observe.Observer{
			Granted:  func(observe.Granted) { p.granted = time.Since(began) },
			Released: func(observe.Released) { p.ends = time.Since(began) },
			Lost:     func(observe.Lost) { p.ends, p.lost = time.Since(began), true },
		}))
		all.Go(func() {
			time.Sleep(p.begins) // virtual: when it begins
			take := lock.RLock
			if p.kind == observe.KindWrite {
				take = lock.Lock
			}
			err := zklocks.Do(t.Context(), take, func(ctx context.Context, _ *zklocks.Hold) error {
				select {
				case <-time.After(p.works): // virtual: its work
				case <-ctx.Done():
				}
				return nil
			})
			if (p.cut > 0) != errors.Is(err, zklocks.ErrLost) {
				t.Errorf("%s: %v", p.name, err)
			}
		})
		if p.cut > 0 {
			all.Go(func() {
				time.Sleep(p.cut) // virtual: until its network is cut
				proxies[i].Mute()
			})
		}
	}
	all.Wait()
	synctest.Wait() // the observers have been called
	for _, p := range proxies {
		p.Unmute() // so that all connections can be closed
	}
	return played
}

const (
	left, top = 62.0, 12.0
	second    = 14.0 // width
	row       = 24.0 // height
	width     = 480.0
)

const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #57606a }
.grid { stroke: #d0d7de }
.read { fill: #0969da } .write { fill: #bc4c00 }
.waits { opacity: 0.4 }
.lost { stroke: #cf222e; stroke-width: 2.5; stroke-dasharray: 3 3 }
.cross { font-size: 18px; fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.grid { stroke: #3d444d }
.read { fill: #58a6ff } .write { fill: #f0883e }
.lost { stroke: #ff7b72 }
.cross { fill: #ff7b72 }
}
</style>`

// draw returns the picture: a row for each process, a thin bar while it waits, a thick bar while it
// holds. A process that is cut off has three marks: the cut, a cross where the context of its hold
// is canceled, and the expiry of its session, when the lock is granted to the next. The row above
// it must be empty from the cut on. The colors follow the reader's theme.
func draw(played []process) string {
	var b strings.Builder
	text := func(x, y float64, anchor, class, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, html.EscapeString(s))
	}
	rect := func(x, y, width, height float64, class string) {
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="1" class="%s"/>`+"\n", x, y, width, height, class)
	}
	line := func(x, from, to float64, class string) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x, from, x, to, class)
	}
	at := func(d time.Duration) float64 { return left + d.Seconds()*second }
	bottom := top + float64(len(played))*row
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" role="img" aria-label="%s">`+"\n%s\n",
		width, bottom+44, width, "The queue of a lock over time", style)
	for s := time.Duration(0); at(s) < width-8; s += 5 * time.Second {
		line(at(s), top-4, bottom, "grid")
		text(at(s), bottom+13, "middle", "small", fmt.Sprintf("%.0f s", s.Seconds()))
	}
	for i, p := range played {
		y := top + float64(i)*row
		text(left-8, y+14, "end", "", p.name)
		if p.granted-p.begins > tick/100 {
			rect(at(p.begins), y+8, at(p.granted)-at(p.begins), 4, string(p.kind)+" waits")
		}
		rect(at(p.granted), y+2, at(p.ends)-at(p.granted), 16, string(p.kind))
		if p.lost {
			line(at(p.cut), y, y+20, "lost")
			text(at(p.cut), y-5, "middle", "small", "cut off")
			text(at(p.ends)+6, y+15, "middle", "cross", "×")
			text(at(p.ends)+6, y-5, "middle", "small", "context canceled")
			expired := at(passedOn(played, p.ends))
			line(expired, y, bottom, "lost")
			text(expired+7, y+14, "start", "small", "session expires")
		}
	}
	for i, entry := range []string{"read", "write", "read waits"} {
		x, y := left+78*float64(i), bottom+24
		rect(x, y, 18, 12, entry)
		text(x+23, y+10, "start", "small", []string{"reads", "writes", "waits"}[i])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// passedOn returns when the lock is first granted after a loss: as soon as the session has expired.
func passedOn(played []process, after time.Duration) time.Duration {
	first := time.Hour
	for _, p := range played {
		if p.granted > after {
			first = min(first, p.granted)
		}
	}
	return first
}
