// Gocron runs one job on several schedulers of github.com/go-co-op/gocron. Each has its own
// connection, and a clock that is a little later than the previous one. It exits with 1 unless the
// job runs once in each period.
//
//	go run . -servers host:2181           # a Locker made of package once
//	go run . -servers host:2181 -elector  # an Elector made of package leader
//	go run . -servers host:2181 -unlocked # neither: the check fails
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/zklocks/zklocks"
)

var (
	servers  = flag.String("servers", env("ZK_SERVERS", "127.0.0.1:2181"), "addresses of the ensemble, with commas between them")
	elector  = flag.Bool("elector", false, "the leader runs the job")
	unlocked = flag.Bool("unlocked", false, "each scheduler runs the job: the check fails")
)

func main() {
	flag.Parse()
	mode := "locker"
	switch {
	case *elector:
		mode = "elector"
	case *unlocked:
		mode = "unlocked"
	}
	addrs, chroot, err := zklocks.ParseServers(*servers)
	if err == nil {
		err = play(context.Background(), mode, 6, 5, 2*time.Second, func(ctx context.Context) (*zklocks.Conn, error) {
			return zklocks.Connect(ctx, addrs, 10*time.Second, zklocks.WithChroot(chroot), zklocks.WithLogger(log.Default()))
		})
	}
	if err != nil {
		log.Fatal("gocron: ", err)
	}
}

func env(name, or string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return or
}

// play runs the schedulers for some periods, and checks that the job has run once in each.
func play(ctx context.Context, mode string, schedulers, periods int, period time.Duration, connect func(context.Context) (*zklocks.Conn, error)) error {
	path := "/zklocks-gocron-" + uuid.NewString()
	var mu sync.Mutex
	runs := map[time.Time][]int{} // who has run the job, by period
	first := time.Now().Truncate(period).Add(2 * period)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var candidates sync.WaitGroup
	for i := range schedulers {
		conn, err := connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if i == 0 {
			defer conn.Client().Delete(conn.Path(path+"/count/last"), -1) // the record of the last run
		}
		var all []gocron.SchedulerOption
		job := []gocron.JobOption{gocron.WithName("count")}
		switch mode {
		case "locker":
			locker := NewLocker(conn, path, period)
			job = append(job, gocron.WithDistributedJobLocker(locker), gocron.WithEventListeners(gocron.AfterJobRunsWithError(locker.Failed)))
		case "elector":
			e := NewElector(conn, path)
			candidates.Go(func() {
				if err := e.Run(ctx); ctx.Err() == nil {
					log.Print(err)
				}
			})
			all = append(all, gocron.WithDistributedElector(e))
		}
		scheduler, err := gocron.NewScheduler(all...)
		if err != nil {
			return err
		}
		defer scheduler.Shutdown()
		late := period / 3 * time.Duration(i) / time.Duration(schedulers)
		job = append(job, gocron.WithStartAt(gocron.WithStartDateTime(first.Add(late))))
		if _, err := scheduler.NewJob(gocron.DurationJob(period), gocron.NewTask(func() {
			at := time.Now().Truncate(period)
			mu.Lock()
			defer mu.Unlock()
			runs[at] = append(runs[at], i)
			fmt.Printf("period %d: scheduler %d\n", at.Sub(first)/period, i)
		}), job...); err != nil {
			return err
		}
		scheduler.Start()
	}
	defer candidates.Wait()
	defer cancel()
	time.Sleep(time.Until(first.Add(time.Duration(periods)*period - period/2)))
	mu.Lock()
	defer mu.Unlock()
	for n := range periods {
		if ran := runs[first.Add(time.Duration(n)*period)]; len(ran) != 1 {
			return fmt.Errorf("in period %d the job was run by %v, want one scheduler", n, ran)
		}
	}
	if len(runs) != periods {
		return errors.New("the job was run in a period too many")
	}
	fmt.Printf("%d schedulers, %d periods: one run in each\n", schedulers, periods)
	return nil
}
