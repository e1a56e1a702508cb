// Leader: each of three candidates leads for a dozen jobs, proclaims what it has done, resigns and
// campaigns again. A process that is not a candidate watches. One leader is killed with SIGKILL,
// like a crash, and the next candidate leads when that leader's session has expired.
//
//	go run ./examples/leader -servers host:2181
//
// It fails (exit status 1) if two were ever at work at the same time, as they report through a
// pipe; if the dead leader was not replaced in time; or if the watcher did not see that.
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/internal/crew"
	"github.com/zklocks/zklocks/leader"
)

const jobs, session = 12, 2 * time.Second // a server grants sessions of at least 2 of its ticks
var within = flag.Duration("within", 7*time.Second, "time for a takeover; session timeout + 2 ticks are enough")

func main() { crew.Main(lead, work) }

// work is a candidate: it campaigns again after each term, until ctx is canceled.
func work(ctx context.Context, c *crew.Crew) error {
	conn, err := zklocks.Connect(ctx, c.Servers, session)
	if err != nil {
		return err
	}
	defer conn.Close()
	election := leader.New(conn, c.Path, zklocks.WithData([]byte(c.Name+" begins")))
	return election.Run(ctx, func(ctx context.Context, term *zklocks.Hold) error {
		c.Say("start")
		defer c.Say("end")
		for job := range jobs {
			time.Sleep(100 * time.Millisecond) // the job
			err := election.Proclaim(ctx, term, fmt.Appendf(nil, "%s has done job %d of %d", c.Name, job+1, jobs))
			if err != nil && ctx.Err() != nil { // otherwise the connection was lost, and the next job proclaims again
				return err // the term is lost, or the example ends
			}
		}
		return nil
	})
}

// lead starts the candidates, kills a leader during its term, and counts.
func lead(ctx context.Context, c *crew.Crew) error {
	terms := c.Tally(1) // fails the example if there are more at the same time
	seen := make(chan string, 10_000)
	go view(ctx, c, seen)
	c.Start("c1", "c2", "c3")
	terms.Run(ctx, 5*time.Second, nil)
	victim, err := terms.Run(ctx, 10*time.Second, terms.Full)
	if err != nil {
		return fmt.Errorf("no candidate was elected: %w", err)
	}
	terms.Run(ctx, 500*time.Millisecond, nil) // some jobs
	c.Worker(victim.From).Kill()
	killed := time.Now()
	terms.Gone(victim.From)
	for len(seen) > 0 {
		<-seen // only what is seen from now on counts
	}
	c.Note("SIGKILL to %s, which leads: its place is taken until its session expires", victim.From)
	heir, err := terms.Run(ctx, *within, terms.Full)
	if err != nil {
		return fmt.Errorf("no candidate took the place of %s in %v: %w", victim.From, *within, err)
	}
	c.Note("%s leads in place of %s, %.1f s after the kill", heir.From, victim.From, heir.At.Sub(killed).Seconds())
	terms.Run(ctx, 2*time.Second, nil)
	for last := ""; last != heir.From; {
		select {
		case last = <-seen:
		case <-time.After(time.Second):
			return fmt.Errorf("the watcher has not seen %s lead", heir.From)
		}
	}
	return c.Proved("%d terms, never two leaders at once; a killed leader was replaced", terms.Done)
}

// view shows who leads and what the leader has proclaimed. Any process can follow that.
func view(ctx context.Context, c *crew.Crew, seen chan<- string) {
	conn, err := zklocks.Connect(ctx, c.Servers, session)
	if err != nil {
		return
	}
	defer conn.Close()
	for view, err := range leader.New(conn, c.Path).Observe(ctx) {
		if err != nil {
			return
		}
		name, does, _ := strings.Cut(string(view.Leader.Data), " ")
		c.Live("leader: %-10s %-24s current: %v", c.Tag(name), does, view.Current)
		seen <- name
	}
}
