// Joblimit: many worker processes, at most N of them at work at the same time. It shows which
// workers run and which wait, and kills a worker at work with SIGKILL, like a crash. The next
// waiter is granted the permit when the dead worker's session has expired.
//
//	go run ./examples/joblimit -servers host:2181
//
// It fails (exit status 1) if more than N ever worked at the same time, if N never did, or if the
// dead worker's permit was not granted in time. It measures that without the lock: workers report
// the start and end of each job through one pipe.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/internal/crew"
	"github.com/zklocks/zklocks/semaphore"
)

const session = 2 * time.Second // a server grants sessions of at least 2 of its ticks

var (
	limit  = flag.Int("limit", 3, "permits: jobs at once")
	within = flag.Duration("within", 7*time.Second, "time for a takeover; session timeout + 2 ticks are enough")
)

func main() { crew.Main(lead, work) }

// work is a worker process: it runs one job after the other, until ctx is canceled.
func work(ctx context.Context, c *crew.Crew) error {
	conn, err := zklocks.Connect(ctx, c.Servers, session)
	if err != nil {
		return err
	}
	defer conn.Close()
	jobs := semaphore.New(conn, c.Path, *limit, zklocks.WithData([]byte(c.Name)))
	for {
		err := zklocks.Do(ctx, jobs.Locker(1).Lock, func(ctx context.Context, _ *zklocks.Hold) error {
			c.Say("start")
			defer c.Say("end")
			select {
			case <-time.After(time.Duration(300+rand.IntN(300)) * time.Millisecond): // the job
			case <-ctx.Done(): // the permit is lost, or the example ends
			}
			return nil
		})
		if err != nil && !errors.Is(err, zklocks.ErrLost) { // a worker that has lost its permit requests another
			return err
		}
	}
}

// lead starts the workers, kills a worker at work, and counts.
func lead(ctx context.Context, c *crew.Crew) error {
	jobs := c.Tally(*limit) // fails the example if there are more at the same time
	c.Start("w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8")
	go view(ctx, c)
	jobs.Run(ctx, 3*time.Second, nil)
	victim, err := jobs.Run(ctx, 10*time.Second, jobs.Full)
	if err != nil {
		return fmt.Errorf("there were never %d jobs at once, but %d: %w", *limit, jobs.Most, err)
	}
	c.Worker(victim.From).Kill()
	killed := time.Now()
	jobs.Gone(victim.From)
	c.Note("SIGKILL to %s, at work: its place is taken until its session expires", victim.From)
	heir, err := jobs.Run(ctx, *within, jobs.Full)
	if err != nil {
		return fmt.Errorf("no worker took the place of %s in %v: %w", victim.From, *within, err)
	}
	took := heir.At.Sub(killed).Seconds()
	c.Note("%s takes the place of %s, %.1f s after the kill", heir.From, victim.From, took)
	jobs.Run(ctx, 1500*time.Millisecond, nil)
	return c.Proved("%d jobs, never more than %d at once; a killed worker was replaced after %.1f s", jobs.Done, jobs.Most, took)
}

// view shows which workers run and which wait. Any process can read that from ZooKeeper.
func view(ctx context.Context, c *crew.Crew) {
	conn, err := zklocks.Connect(ctx, c.Servers, session)
	if err != nil {
		return
	}
	defer conn.Close()
	for jobs := semaphore.New(conn, c.Path, *limit); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if members, err := jobs.Queue(ctx); err == nil && len(members) > 0 {
			who := map[bool][]string{}
			for _, m := range members {
				who[m.Holding] = append(who[m.Holding], c.Tag(string(m.Data)))
			}
			c.Live("run: %-16s wait: %s", strings.Join(who[true], " "), strings.Join(who[false], " "))
		}
	}
}
