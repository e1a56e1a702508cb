package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns connections of different hosts, which the caller must close.
func connect(s *zktest.Server) func(context.Context) (*zklocks.Conn, error) {
	n := 0
	return func(ctx context.Context) (*zklocks.Conn, error) {
		n++
		host := s.Host("host" + strings.Repeat("+", n))
		return zklocks.Connect(ctx, s.Addrs(), 10*time.Second, zklocks.WithDialer(host.Dial))
	}
}

// The example passes with a Locker and with an Elector, and fails without them.
func TestOneRunInEachPeriod(t *testing.T) {
	for mode, passes := range map[string]bool{"locker": true, "elector": true, "unlocked": false} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				if err := play(t.Context(), mode, 6, 20, time.Minute, connect(s)); (err == nil) != passes {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// If a job fails, or its process dies, the next process runs the job.
func TestTheNextProcessRunsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		hosts := []*zktest.Host{s.Host("a"), s.Host("b"), s.Host("c")}
		start := time.Now().Truncate(time.Minute).Add(time.Minute)
		ran := make(chan int, 10)
		for i, h := range hosts {
			locker := NewLocker(h.Connect(t, 10*time.Second), "/jobs", time.Minute)
			scheduler, err := gocron.NewScheduler()
			if err != nil {
				t.Fatal(err)
			}
			defer scheduler.Shutdown()
			_, err = scheduler.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func() error {
				ran <- i
				switch i {
				case 0:
					return errors.New("broken")
				case 1:
					h.Partition() // for the other processes, this process is dead
					time.Sleep(20 * time.Second)
				}
				return nil
			}), gocron.WithName("job"), gocron.WithDistributedJobLocker(locker),
				gocron.WithEventListeners(gocron.AfterJobRunsWithError(locker.Failed)),
				gocron.WithStartAt(gocron.WithStartDateTime(start.Add(time.Duration(i)*time.Second))))
			if err != nil {
				t.Fatal(err)
			}
			scheduler.Start()
		}
		time.Sleep(time.Until(start.Add(50 * time.Second)))
		for i := range hosts {
			select {
			case by := <-ran:
				if by != i {
					t.Errorf("run %d was in process %d", i, by)
				}
			default:
				t.Fatalf("%d runs, want 3", i)
			}
		}
		if len(ran) > 0 {
			t.Errorf("%d runs too many", len(ran))
		}
		last, err := once.New(hosts[2].Connect(t, 10*time.Second), "/jobs/job").Last(t.Context())
		if err != nil || last.Called.Sub(start).Round(time.Second) != 2*time.Second {
			t.Errorf("last run %+v, %v: want the call of the third", last, err)
		}
		hosts[1].Heal()
	})
}
