package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// nexts are the waiters of this process for the locks that a child holds.
type nexts struct {
	place
	recipe
	follow acquire
	*contract.Attempt[grant]
}

// await queues them, each behind members others.
func await(t *testing.T, ctx context.Context, conn *wire.Conn, places []place, members int) []*nexts {
	t.Helper()
	var line []*nexts
	for _, p := range places {
		r := recipeNamed(p.Recipe)
		n := &nexts{place: p, recipe: r, follow: r.next(conn, p.Path)}
		n.Attempt = contract.Begin(t, ctx, func(ctx context.Context) (grant, error) {
			h, err := n.follow(ctx)
			return grant{Hold: h, at: history.Now()}, err
		})
		line = append(line, n)
		test.Eventually(t, patience, "the next one stands in line", func() bool {
			return len(test.Children(t, conn, p.Path+r.below)) == members+1 || closed(n.Done) // the holder has lost it before
		})
	}
	return line
}

func inLine(t *testing.T, conn *wire.Conn, dir string, members int) {
	t.Helper()
	test.Eventually(t, patience, fmt.Sprintf("%d in line", members), func() bool {
		return len(test.Children(t, conn, dir)) == members
	})
}

// granted waits until this one holds, and returns when the call had returned.
func (n *nexts) granted(t *testing.T) int64 {
	t.Helper()
	test.Within(t, patience, "the next one holds", func() { <-n.Done })
	if n.Err != nil {
		t.Fatal(n.Err)
	}
	return n.Hold.at
}

// A process that was stopped for longer than its sessions learns of the loss at its first check,
// whichever it is: no check that began after the next one's grant says that the lock is held.
func TestProcessStopped(t *testing.T) {
	beside(t)
	random := seeded(t)
	stops, timeouts := setting(t, "STOPS", 1, 30), []time.Duration{time.Second, time.Second}
	if campaign() {
		timeouts[1] *= 2
	}
	server := server(t, 0)
	o := order{Servers: []string{server.Addr()}}
	all := 4 * len(recipes) // each with each look
	for i := range all {
		o.Places = append(o.Places, place{
			Recipe: recipes[i%len(recipes)].name, Path: test.Path(t), Timeout: timeouts[2*i/all],
			Look: []string{"Held", "Lost", "Err", "Done"}[(i+i/len(recipes))%4],
		})
	}
	c := realzk.StartChild(t, childEnv, o)
	c.Hears("ready")
	conn := realzk.Connect(t, lasting, server.Addr())
	var taken []takeover // whose loss was found at a look
	var survived, during int
	for n := range stops {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		c.Say("lock")
		c.Hears("holding")
		line := await(t, ctx, conn, o.Places, 1)
		linger(upTo(random, time.Second))
		length := upTo(random, 4*time.Second)
		if n%2 == 0 { // long enough for all to be taken over meanwhile
			length = timeouts[1] + 400*time.Millisecond + length/4 + slack()/5
		}
		stopped := history.Now()
		c.Pause()
		linger(length)
		resumed := history.Now()
		c.Resume()
		c.Say("tell")
		var told []account
		if err := json.Unmarshal([]byte(c.Hears("told")), &told); err != nil {
			t.Fatal(err)
		}
		for i, next := range line {
			granted, a := next.granted(t), told[i]
			if a.LastHeld >= granted {
				t.Errorf("%s, %s, T %v, stopped for %v: a look that began %v after the next one's grant said that the lock is held",
					next.Recipe, next.Look, next.Timeout, length, time.Duration(a.LastHeld-granted))
			}
			if a.LastHeld == 0 && a.FirstLost > stopped {
				t.Errorf("%s: never held", next.Recipe)
			}
			if a.FirstLost != 0 && a.LastHeld > a.FirstLost {
				t.Errorf("%s, %s: held again after the loss", next.Recipe, next.Look)
			}
			if granted < resumed {
				if !a.Lost {
					t.Errorf("%s: taken over while it was stopped, and it still holds", next.Recipe)
				}
				if a.FirstLost > stopped {
					during++
				}
			}
			if a.Lost {
				taken = append(taken, takeover{next.place, granted - stopped, granted - a.LastHeld, a.FirstLost - resumed, a.Woken - resumed})
			} else {
				survived++
			}
			if err := next.Hold.Release(ctx); err != nil {
				t.Error(err)
			}
		}
		cancel()
	}
	if during == 0 {
		t.Log("no lock was taken over during a stop: the run means nothing")
		if campaign() {
			t.Fail()
		}
	}
	for _, p := range o.Places {
		test.AssertEmpty(t, conn, p.Path+recipeNamed(p.Recipe).below)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d stops of %d holds: %d held on, %d lost, %d of these taken over while the process stood\n", stops, len(o.Places), survived, len(taken), during)
	b.WriteString("| T | lost | the last look that said held, before the next one's grant: least | median | first look after the stop: median | last | a waiter on Lost woke after the stop: median | last |\n|---|---|---|---|---|---|---|---|\n")
	for _, timeout := range slices.Compact(timeouts) {
		var of []takeover
		for _, k := range taken {
			if k.Timeout == timeout && k.found >= 0 { // not before the stop had ended: the deadline came while it ran
				of = append(of, k)
			}
		}
		margin := spread(of, func(k takeover) time.Duration { return time.Duration(k.margin) })
		fmt.Fprintf(&b, "| %v | %d | %s | %s |", timeout, len(of), margin.least, margin.median)
		for _, by := range []func(takeover) int64{func(k takeover) int64 { return k.found }, func(k takeover) int64 { return k.woken }} {
			d := spread(of, func(k takeover) time.Duration { return time.Duration(by(k)) })
			fmt.Fprintf(&b, " %s | %s |", d.median, d.most)
		}
		b.WriteByte('\n')
	}
	t.Log("\n" + b.String())
}

// takeover is one hold of a process that was stopped.
type takeover struct {
	place
	granted int64 // after the stop began
	margin  int64 // from the last look that said held to the grant
	found   int64 // the first look that said lost, after the stop had ended
	woken   int64 // and when a waiter woke
}

// The locks of a process that is killed pass to the next waiters within its session timeout and two
// ticks. The death of one of its waiters in the middle of a queue grants no lock.
func TestProcessKilled(t *testing.T) {
	beside(t)
	random := seeded(t)
	watchTimers(t)
	kills, timeouts := setting(t, "KILLS", 1, 12), []time.Duration{time.Second, 2 * time.Second}
	ticks := []time.Duration{500 * time.Millisecond}
	if campaign() {
		timeouts = append(timeouts, 4*time.Second)
		ticks = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond}
	}
	type death struct {
		timeout, tick, granted time.Duration
	}
	var deaths []death
	for n := range kills {
		tick := ticks[n%len(ticks)]
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			server := realzk.Standalone(t, realzk.Options{Tick: tick})
			conn, last := realzk.Connect(t, lasting, server.Addr()), realzk.Connect(t, lasting, server.Addr())
			o := order{Servers: []string{server.Addr()}}
			var held, waiting []place
			for _, r := range recipes {
				for _, timeout := range timeouts {
					held = append(held, place{Recipe: r.name, Path: test.Path(t), Timeout: timeout, Look: "Held"})
				}
				waiting = append(waiting, place{Recipe: r.name, Path: test.Path(t), Timeout: timeouts[0], Waits: true})
			}
			o.Places = append(o.Places, held...)
			o.Places = append(o.Places, waiting...)
			var living []*zklocks.Hold
			for _, p := range waiting {
				h, err := recipeNamed(p.Recipe).hold(conn, p.Path)(ctx)
				if err != nil {
					t.Fatal(err)
				}
				living = append(living, h)
			}
			c := realzk.StartChild(t, childEnv, o)
			c.Hears("ready")
			c.Say("lock")
			c.Hears("holding")
			c.Say("wait")
			for _, p := range waiting {
				inLine(t, conn, p.Path+recipeNamed(p.Recipe).below, 2)
			}
			line := await(t, ctx, conn, held, 1)
			behind := await(t, ctx, last, waiting, 2)
			linger(upTo(random, time.Second))
			killed := history.Now()
			c.Kill()
			for _, next := range line {
				d := death{next.Timeout, tick, time.Duration(next.granted(t) - killed)}
				deaths = append(deaths, d)
				if d.granted > d.timeout+2*tick+stood(killed)+slack() {
					t.Errorf("%s: held %v after the death of the holder, more than %v and two ticks of %v; this process stood for %v", next.Recipe, d.granted, d.timeout, tick, stood(killed))
				}
				if err := next.Hold.Release(ctx); err != nil {
					t.Error(err)
				}
			}
			for i, p := range waiting {
				inLine(t, conn, p.Path+recipeNamed(p.Recipe).below, 2) // the dead one is gone
				for range 10 {                                         // everything that the server has sent has arrived
					if _, _, err := last.Exists("/"); err != nil {
						t.Fatal(err)
					}
				}
				behind[i].Attempt.Waits()
				if err := living[i].Verify(ctx); err != nil {
					t.Error(err)
				}
				if err := living[i].Release(ctx); err != nil {
					t.Error(err)
				}
				behind[i].granted(t)
				if err := behind[i].Hold.Release(ctx); err != nil {
					t.Error(err)
				}
			}
			for _, p := range o.Places {
				test.AssertEmpty(t, conn, p.Path+recipeNamed(p.Recipe).below)
			}
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d deaths of a process; %d waiters dead in the middle\n| T | tick | holders killed | next holds: first | median | last | T + 2 ticks |\n|---|---|---|---|---|---|---|\n", kills, kills*len(recipes))
	for _, timeout := range timeouts {
		for _, tick := range ticks {
			var of []death
			for _, d := range deaths {
				if d.timeout == timeout && d.tick == tick {
					of = append(of, d)
				}
			}
			q := spread(of, func(d death) time.Duration { return d.granted })
			fmt.Fprintf(&b, "| %v | %v | %d | %s | %s | %s | %v |\n", timeout, tick, len(of), q.least, q.median, q.most, timeout+2*tick)
		}
	}
	t.Log(b.String())
}
