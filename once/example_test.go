package once_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/zktest"
)

// report sends the report of a day from one process of the cluster.
func report(ctx context.Context, servers []string, day string) error {
	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()

	job := once.New(conn, "/examples/report")
	err = job.RunSlot(ctx, day, func(ctx context.Context, hold *zklocks.Hold) error {
		return sendReport(ctx, day) // this ctx is canceled when the lock is lost, too
	})
	if errors.Is(err, once.ErrDone) {
		return nil // another process has sent the report of this day
	}
	return err
}

func sendReport(_ context.Context, day string) error {
	fmt.Println("the report of", day)
	return nil
}

// cron starts two processes each night.
func ExampleJob_RunSlot() {
	t, end := zktest.ForExample()
	defer end()
	servers := zktest.NewServer(t).ListenTCP(t) // like []string{"zk1:2181", "zk2:2181", "zk3:2181"}

	for _, day := range []string{"2026-11-26", "2026-11-27"} {
		for range 2 { // processes
			if err := report(context.Background(), servers, day); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// the report of 2026-11-26
	// the report of 2026-11-27
}

// After two nights without a server the third night's call sends all three reports.
func ExampleJob_catchUp() {
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program

	job := once.New(conn, "/examples/report")
	for _, night := range []string{"2026-11-24", "2026-11-27"} {
		day, err := time.Parse(time.DateOnly, night)
		if err != nil {
			log.Fatal(err)
		}
		if err := catchUp(context.Background(), job, day, sendReport); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// the report of 2026-11-24
	// the report of 2026-11-25
	// the report of 2026-11-26
	// the report of 2026-11-27
}

// catchUp sends the reports of all days after the last report, up to this day, the oldest first. It
// stops at the first failure: if it sent the next day's report, no process could send this one.
func catchUp(ctx context.Context, job *once.Job, until time.Time, send func(ctx context.Context, day string) error) error {
	day := until
	last, err := job.Last(ctx)
	switch {
	case errors.Is(err, once.ErrNever): // this day's report is the first
	case err != nil:
		return err
	default:
		if day, err = time.Parse(time.DateOnly, last.Slot); err != nil {
			return err
		}
		day = day.AddDate(0, 0, 1)
	}
	for ; !day.After(until); day = day.AddDate(0, 0, 1) {
		slot := day.Format(time.DateOnly)
		err := job.RunSlot(ctx, slot, func(ctx context.Context, _ *zklocks.Hold) error {
			return send(ctx, slot)
		})
		if err != nil && !errors.Is(err, once.ErrDone) { // ErrDone: another process has sent it
			return err
		}
	}
	return nil
}

// Every process calls RunEvery at the same times, here at the full minute.
func ExampleJob_RunEvery() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program

	const period = time.Minute
	job := once.New(conn, "/examples/cleanup")
	for range 2 { // a service repeats this forever
		// time.Sleep(time.Until(time.Now().Truncate(period).Add(period)))
		err := job.RunEvery(ctx, period, func(ctx context.Context, hold *zklocks.Hold) error {
			fmt.Println("cleaning up")
			return nil
		})
		switch {
		case errors.Is(err, once.ErrDone): // another process has done it, or this one
			fmt.Println("done already")
		case err != nil:
			log.Print(err) // the next process that calls does it
		}
	}
	// Output:
	// cleaning up
	// done already
}

// A health check reports a job that has not been run for too long.
func ExampleJob_Last() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program

	job := once.New(conn, "/examples/backup")
	_, err := job.Last(ctx)
	fmt.Println(errors.Is(err, once.ErrNever))

	err = job.RunSlot(ctx, "2026-11-26", func(context.Context, *zklocks.Hold) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	last, err := job.Last(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(last.Slot, time.Since(last.End) < time.Hour)
	// Output:
	// true
	// 2026-11-26 true
}
