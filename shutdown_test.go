package zklocks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// ends are the calls that take a lock, work under it, and release it.
var ends = map[string]func(ctx context.Context, conn *zklocks.Conn, work func(context.Context, *zklocks.Hold) error) error{
	"Do": func(ctx context.Context, conn *zklocks.Conn, work func(context.Context, *zklocks.Hold) error) error {
		return zklocks.Do(ctx, rwlock.New(conn, path).Lock, work)
	},
	"Do with several locks": func(ctx context.Context, conn *zklocks.Conn, work func(context.Context, *zklocks.Hold) error) error {
		return zklocks.Do(ctx, zklocks.All(rwlock.New(conn, path), rwlock.New(conn, path+"/other")).Lock, work)
	},
	"Do with a reader": func(ctx context.Context, conn *zklocks.Conn, work func(context.Context, *zklocks.Hold) error) error {
		return zklocks.Do(ctx, rwlock.New(conn, path).RLock, work)
	},
	"Run": func(ctx context.Context, conn *zklocks.Conn, work func(context.Context, *zklocks.Hold) error) error {
		return leader.New(conn, path).Run(ctx, work)
	},
}

// nodes counts what is in the queue at the moment, as the server has it.
func nodes(t *testing.T, conn *zklocks.Conn) int {
	t.Helper()
	children, _, err := conn.Client().Children(path)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, name := range children {
		if name != "other" {
			count++
		}
	}
	return count
}

// A program that exits when its work has returned because of a signal leaves no node behind: the
// deletion is answered before Do or Run returns, although ctx has ended before it or meanwhile.
func TestTheLockIsFreeWhenTheProgramMayExit(t *testing.T) {
	for name, end := range ends {
		for when, c := range map[string]struct {
			before, after time.Duration // from the cancellation to the return of work, or the other way round
		}{
			"work stops because of it": {before: time.Millisecond}, "during the release": {after: 50 * time.Millisecond},
		} {
			t.Run(name+"/"+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.NewServer(t)
					host, other := s.Host("a"), s.Host("b").Connect(t, 10*time.Second)
					conn := host.Connect(t, 10*time.Second)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					err := end(ctx, conn, func(context.Context, *zklocks.Hold) error {
						host.Delay(100 * time.Millisecond) // each way: longer than any race
						if c.after > 0 {
							time.AfterFunc(c.after, cancel)
							return errWork
						}
						cancel()
						time.Sleep(c.before)
						return context.Canceled
					})
					if left := nodes(t, other); left != 0 {
						t.Errorf("%d nodes are left when it returns", left)
					}
					if err == nil || strings.Contains(err.Error(), "no answer") {
						t.Errorf("error %v", err)
					}
				})
			})
		}
	}
}

// Without an answer they wait for a quarter of the session timeout, a second at most, and say that
// the node may stay.
func TestAReleaseWithoutAnAnswerIsReported(t *testing.T) {
	for name, end := range ends {
		for timeout, want := range map[time.Duration]time.Duration{2 * time.Second: 500 * time.Millisecond, 10 * time.Second: time.Second} {
			t.Run(name+"/"+timeout.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.NewServer(t, zktest.WithTick(time.Second))
					host := s.Host("a")
					conn := host.Connect(t, timeout)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					var began time.Time
					err := end(ctx, conn, func(ctx context.Context, _ *zklocks.Hold) error {
						cancel()
						<-ctx.Done()
						host.Partition()
						began = time.Now()
						return nil
					})
					if took := time.Since(began); took != want {
						t.Errorf("it waited for %v, want %v", took, want)
					}
					if !errors.Is(err, context.Canceled) || errors.Is(err, zklocks.ErrLost) ||
						!strings.Contains(err.Error(), "no answer within "+want.String()+": the node may stay until the session ends") {
						t.Errorf("error %v", err)
					}
					host.Heal()
				})
			})
		}
	}
}

// The same for a caller that still waits for the lock: its node would keep all behind it waiting.
func TestTheQueueIsLeftWhenTheProgramMayExit(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				host, other := s.Host("a"), s.Host("b").Connect(t, 10*time.Second)
				conn := host.Connect(t, 10*time.Second)
				ahead := rwlock.New(other, path).Lock
				if name == "Run" {
					ahead = leader.New(other, path).Campaign
				}
				hold, err := ahead(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for without, want := range map[string]time.Duration{"": 200 * time.Millisecond, "no answer within 1s: the node may stay": time.Second} {
					ctx, cancel := context.WithCancel(t.Context())
					result := make(chan error, 1)
					go func() {
						result <- end(ctx, conn, func(context.Context, *zklocks.Hold) error { return errWork })
					}()
					time.Sleep(time.Second) // virtual: it waits
					if waits := nodes(t, other); waits != 2 {
						t.Errorf("%d nodes, want the holder's and the waiter's", waits)
					}
					host.Delay(100 * time.Millisecond) // each way
					if without != "" {
						host.Partition()
					}
					began := time.Now()
					cancel()
					err := <-result
					if took := time.Since(began); took.Round(10*time.Millisecond) != want {
						t.Errorf("it took %v, want %v", took, want)
					}
					if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), without) || without == "" && strings.Contains(err.Error(), "no answer") {
						t.Errorf("error %v", err)
					}
					if left := nodes(t, other); without == "" && left != 1 {
						t.Errorf("%d nodes when it returns, want the holder's", left)
					}
					host.Heal()
					time.Sleep(time.Minute) // virtual
				}
				if err := hold.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A reader whose node other readers still need has nothing to wait for.
func TestAReaderLeavesOthersAtOnce(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := rwlock.New(d.other, path).Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		ctx, cancel := context.WithCancel(d.Context())
		result, stays := make(chan error, 1), make(chan error, 1)
		nothing := func(context.Context, *zklocks.Hold) error { return nil }
		go func() { result <- zklocks.Do(ctx, d.lock.RLock, nothing) }()
		longer, stop := context.WithCancel(d.Context())
		defer stop()
		go func() { stays <- zklocks.Do(longer, d.lock.RLock, nothing) }()
		time.Sleep(time.Second) // virtual: both wait
		began := time.Now()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			d.Errorf("error %v after %v", err, time.Since(began))
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
		if err := <-stays; err != nil {
			d.Errorf("the reader that stays: %v", err)
		}
	})
}

// The errors of work and of the release are reported together.
func TestAReleaseWithoutAnAnswerIsReportedWithTheErrorOfWork(t *testing.T) {
	atDesk(t, func(d *desk) {
		ctx, cancel := context.WithCancel(d.Context())
		defer cancel()
		err := zklocks.Do(ctx, d.lock.Lock, func(context.Context, *zklocks.Hold) error {
			d.host.Partition()
			cancel()
			return errWork
		})
		if !errors.Is(err, errWork) || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "work failed; and rwlock: release /do: context canceled: no answer within 1s") {
			d.Errorf("error %v", err)
		}
		d.host.Heal()
	})
}

// While ctx lives they wait for the answer as long as it takes.
func TestAReleaseWaitsAsLongAsTheContextLives(t *testing.T) {
	for _, name := range []string{"Do", "Do with several locks"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := zktest.NewServer(t).Host("a")
				conn := host.Connect(t, 20*time.Second)
				began := time.Now()
				err := ends[name](t.Context(), conn, func(context.Context, *zklocks.Hold) error {
					host.Refuse()
					time.AfterFunc(5*time.Second, host.Accept)
					began = time.Now()
					return nil
				})
				if took := time.Since(began); err != nil || took < 5*time.Second {
					t.Errorf("error %v after %v", err, took)
				}
			})
		})
	}
}

// When the wait is over, the waiter's node is deleted: a program may end itself then.
func TestAWaitWithinALimitHasLeftTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host, other := s.Host("a"), s.Host("b").Connect(t, 10*time.Second)
		conn := host.Connect(t, 10*time.Second)
		hold, err := rwlock.New(other, path).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		host.Delay(100 * time.Millisecond) // each way
		began := time.Now()
		_, err = zklocks.Within(2*time.Second, rwlock.New(conn, path).Lock)(t.Context())
		if took := time.Since(began).Round(10 * time.Millisecond); took != 2200*time.Millisecond {
			t.Errorf("it took %v, want the limit and the answer to the deletion", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "leaving the queue") {
			t.Errorf("error %v", err)
		}
		if left := nodes(t, other); left != 1 {
			t.Errorf("%d nodes when it returns, want the holder's", left)
		}
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
