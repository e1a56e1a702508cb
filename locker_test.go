package zklocks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// A desk is a lock in memory and another process that waits for it.
type desk struct {
	*testing.T
	server      *zktest.Server
	host        *zktest.Host
	conn, other *zklocks.Conn
	lock        *rwlock.RWMutex
}

const path = "/do"

func atDesk(t *testing.T, f func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		d := &desk{T: t, server: s, host: host, conn: host.Connect(t, 4*time.Second), other: s.Host("b").Connect(t, 4*time.Second)}
		d.lock = rwlock.New(d.conn, path)
		f(d)
	})
}

// free reports whether another process can acquire the lock.
func (d *desk) free() bool {
	d.Helper()
	time.Sleep(time.Second) // virtual: background deletions have ended
	hold, err := rwlock.New(d.other, path).TryLock(d.Context())
	if err != nil && !errors.Is(err, zklocks.ErrBusy) {
		d.Fatal(err)
	}
	if err == nil && hold.Release(d.Context()) != nil {
		d.Error("not released")
	}
	return err == nil
}

// lose deletes the nodes of the lock, and waits until the hold is lost.
func (d *desk) lose(hold *zklocks.Hold) {
	d.Helper()
	queue, err := d.lock.Queue(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	lost := hold.Lost() // sets the watch
	for _, m := range queue {
		if err := d.other.Client().Delete(m.Path, -1); err != nil {
			d.Fatal(err)
		}
	}
	<-lost
}

var errWork = errors.New("work failed")

func TestDo(t *testing.T) {
	for name, tc := range map[string]struct {
		work  func(d *desk, cancel func(), ctx context.Context, hold *zklocks.Hold) error
		match []error // nil: no error
		not   []error
	}{
		"work succeeds": {work: func(d *desk, _ func(), ctx context.Context, hold *zklocks.Hold) error {
			if !hold.Held() || ctx.Err() != nil || d.free() {
				d.Error("work runs without the lock")
			}
			return nil
		}},
		"work fails": {
			work:  func(*desk, func(), context.Context, *zklocks.Hold) error { return errWork },
			match: []error{errWork}, not: []error{zklocks.ErrLost},
		},
		"the lock is lost and work does not notice": {
			work: func(d *desk, _ func(), _ context.Context, hold *zklocks.Hold) error {
				d.lose(hold)
				return nil
			},
			match: []error{zklocks.ErrLost},
		},
		"the lock is lost and work stops": {
			work: func(d *desk, _ func(), ctx context.Context, hold *zklocks.Hold) error {
				d.lose(hold)
				<-ctx.Done()
				return ctx.Err()
			},
			match: []error{zklocks.ErrLost, context.Canceled},
		},
		"the lock is lost and work says so": {
			work: func(d *desk, _ func(), ctx context.Context, hold *zklocks.Hold) error {
				d.lose(hold)
				<-ctx.Done()
				return context.Cause(ctx)
			},
			match: []error{zklocks.ErrLost},
		},
		"the context ends and work is done": {work: func(_ *desk, cancel func(), ctx context.Context, _ *zklocks.Hold) error {
			cancel()
			return nil
		}},
		"the context ends and work stops": {
			work: func(_ *desk, cancel func(), ctx context.Context, _ *zklocks.Hold) error {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			},
			match: []error{context.Canceled}, not: []error{zklocks.ErrLost},
		},
		"work releases by itself": {work: func(d *desk, _ func(), ctx context.Context, hold *zklocks.Hold) error {
			return hold.Release(ctx)
		}},
		"the release fails": {
			work: func(d *desk, _ func(), ctx context.Context, hold *zklocks.Hold) error {
				d.host.Next(zktest.Delete, zktest.Answer(-102))
				return errWork
			},
			match: []error{errWork, zk.ErrNoAuth},
		},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				ctx, cancel := context.WithCancel(d.Context())
				defer cancel()
				err := zklocks.Do(ctx, d.lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
					return tc.work(d, cancel, ctx, hold)
				})
				if len(tc.match) == 0 && err != nil {
					t.Errorf("error: %v", err)
				}
				for _, want := range tc.match {
					if !errors.Is(err, want) {
						t.Errorf("error: %v, want one that matches %v", err, want)
					}
				}
				for _, not := range tc.not {
					if errors.Is(err, not) {
						t.Errorf("error: %v, which matches %v", err, not)
					}
				}
				if errors.Is(err, zklocks.ErrLost) && !strings.HasSuffix(err.Error(), path+": lock lost: its node was deleted") {
					t.Errorf("error: %v: it does not name the path, or why", err)
				}
				if err != nil && strings.Count(err.Error(), "lock lost") > 1 {
					t.Errorf("error: %v: says it twice", err)
				}
				if free := d.free(); free == (name == "the release fails") {
					t.Errorf("free: %v", free)
				}
			})
		})
	}
}

func TestDoDoesNotWorkWithoutTheLock(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := rwlock.New(d.other, path).Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		err = zklocks.Do(d.Context(), d.lock.TryLock, func(context.Context, *zklocks.Hold) error {
			t.Error("work was called")
			return nil
		})
		if !errors.Is(err, zklocks.ErrBusy) {
			t.Errorf("error: %v", err)
		}
		if err := hold.Release(d.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A nil function panics before the lock is acquired.
func TestDoWithoutAFunction(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := rwlock.New(d.other, path).Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		for name, call := range map[string]func(context.Context) error{
			"no lock": func(ctx context.Context) error {
				return zklocks.Do(ctx, nil, func(context.Context, *zklocks.Hold) error { return nil })
			},
			"no work": func(ctx context.Context) error { return zklocks.Do(ctx, d.lock.Lock, nil) },
		} {
			ctx, cancel := context.WithTimeout(d.Context(), time.Second)
			func() {
				defer func() {
					if p := recover(); p != "zklocks: a function is nil" {
						d.Errorf("%s: panic %v", name, p)
					}
				}()
				d.Errorf("%s: %v", name, call(ctx))
			}()
			cancel()
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// A lock function that returns neither a hold nor an error panics. A nil context panics, too, and
// no lock is acquired.
func TestDoWithoutAHold(t *testing.T) {
	atDesk(t, func(d *desk) {
		work := func(context.Context, *zklocks.Hold) error { t.Error("work was called"); return nil }
		for name, c := range map[string]struct {
			ctx  context.Context
			lock func(context.Context) (*zklocks.Hold, error)
			says string
		}{
			"no context": {nil, func(context.Context) (*zklocks.Hold, error) { return d.lock.Lock(d.Context()) }, "zklocks: the context is nil"},
			"no hold":    {d.Context(), func(context.Context) (*zklocks.Hold, error) { return nil, nil }, "zklocks: neither a hold nor an error"},
		} {
			func() {
				defer func() {
					if p := recover(); p != c.says {
						d.Errorf("%s: panic %v", name, p)
					}
				}()
				d.Errorf("%s: %v", name, zklocks.Do(c.ctx, c.lock, work))
			}()
		}
		hold, err := d.lock.TryLock(d.Context()) // no panic has left the lock held
		if err != nil {
			d.Fatal(err)
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
		err = zklocks.Do(d.Context(), func(context.Context) (*zklocks.Hold, error) { return hold, nil }, work)
		if !errors.Is(err, zklocks.ErrReleased) {
			d.Errorf("error %v of a hold that was released before", err)
		}
	})
}

func TestDoReleasesWhenWorkPanics(t *testing.T) {
	atDesk(t, func(d *desk) {
		defer func() {
			if recover() != errWork {
				t.Error("the panic is gone")
			}
			if !d.free() {
				t.Error("the lock is not free")
			}
		}()
		_ = zklocks.Do(d.Context(), d.lock.Lock, func(context.Context, *zklocks.Hold) error { panic(errWork) })
	})
}

// Multi: "[ErrLost] or [ErrReleased]: the hold has ended". With the context of the hold,
// concurrently with a downgrade that continues without its caller.
func TestMultiDuringADowngradeOfALostHold(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := d.lock.Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		ctx := hold.Context(d.Context())
		d.host.Partition()
		short, cancel := context.WithTimeout(d.Context(), time.Second)
		defer cancel()
		if err := d.lock.Downgrade(short, hold); !errors.Is(err, context.DeadlineExceeded) {
			d.Errorf("downgrade: %v", err)
		}
		verify := make(chan error)
		go func() { verify <- hold.Verify(ctx) }()
		_, err = hold.Multi(ctx)
		if end := hold.Err(); !errors.Is(end, zklocks.ErrLost) {
			d.Errorf("the hold: %v", end)
		}
		if err := <-verify; !errors.Is(err, zklocks.ErrLost) {
			d.Errorf("verify: %v", err)
		}
		if !errors.Is(err, zklocks.ErrLost) {
			d.Errorf("multi: %v", err)
		}
		d.host.Heal()
		_ = hold.Release(d.Context())
	})
}

// Within: "If d passes first, the function returns lock's error, which matches
// context.DeadlineExceeded and names d. By then the caller has left the queue".
func TestWithinEndsTheWait(t *testing.T) {
	atDesk(t, func(d *desk) {
		mutex, permit := reentrant.New(d.conn, path), semaphore.New(d.conn, path+"/permits", 1).Locker(1)
		for name, c := range map[string]struct {
			holds func(context.Context) (*zklocks.Hold, error)
			lock  func(context.Context) (*zklocks.Hold, error)
			says  string
		}{
			"a writer":      {rwlock.New(d.other, path).Lock, d.lock.Lock, "rwlock: lock /do: context deadline exceeded: not granted within 2s"},
			"a reader":      {rwlock.New(d.other, path).Lock, d.lock.RLock, "rwlock: read lock /do: context deadline exceeded: not granted within 2s"},
			"a mutex":       {reentrant.New(d.other, path).Lock, mutex.Lock, "reentrant: lock /do: context deadline exceeded: not granted within 2s"},
			"a permit":      {semaphore.New(d.other, path+"/permits", 1).Locker(1).Lock, permit.Lock, "semaphore: acquire /do/permits: context deadline exceeded: not granted within 2s"},
			"several locks": {rwlock.New(d.other, path).Lock, zklocks.All(d.lock, permit).Lock, "not granted within 2s"},
		} {
			hold, err := c.holds(d.Context())
			if err != nil {
				d.Fatal(err)
			}
			began := time.Now()
			err = zklocks.Do(d.Context(), zklocks.Within(2*time.Second, c.lock), func(context.Context, *zklocks.Hold) error {
				d.Errorf("%s: work was called", name)
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.says) {
				d.Errorf("%s: error %v, want %q", name, err, c.says)
			}
			if took := time.Since(began).Round(time.Millisecond); took != 2*time.Second { // the deletion takes a moment
				d.Errorf("%s: it waited %v", name, took)
			}
			if err := hold.Release(d.Context()); err != nil {
				d.Error(err)
			}
		}
		if !d.free() {
			d.Error("a caller whose wait is over is queued")
		}
	})
}

// Within: "d has no effect on the hold and its contexts."
func TestWithinDoesNotEndTheWork(t *testing.T) {
	atDesk(t, func(d *desk) {
		err := zklocks.Do(d.Context(), zklocks.Within(time.Second, d.lock.Lock), func(ctx context.Context, hold *zklocks.Hold) error {
			time.Sleep(time.Minute) // virtual: much longer than the limit
			if ctx.Err() != nil || !hold.Held() {
				d.Errorf("context %v, hold %v", ctx.Err(), hold.Err())
			}
			if _, limited := ctx.Deadline(); limited {
				d.Error("the context of work has a deadline")
			}
			return nil
		})
		if err != nil {
			d.Error(err)
		}
	})
}

// ctx ends the wait, too. If ctx was canceled first, the error names ctx's error.
func TestWithinAContextThatEndsFirst(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := rwlock.New(d.other, path).Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		limited, cancel := context.WithTimeout(d.Context(), time.Second)
		defer cancel()
		canceled, cancel := context.WithCancel(d.Context())
		time.AfterFunc(time.Second, cancel)
		for ctx, want := range map[context.Context]error{limited: context.DeadlineExceeded, canceled: context.Canceled} {
			_, err := zklocks.Within(time.Minute, d.lock.Lock)(ctx)
			if !errors.Is(err, want) || strings.Contains(err.Error(), "not granted within") {
				d.Errorf("error %v, want %v and no limit of Within", err, want)
			}
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// Within: "If d is zero or negative, the function fails without sending a request."
func TestWithinNoTime(t *testing.T) {
	atDesk(t, func(d *desk) {
		for _, none := range []time.Duration{0, -time.Second} {
			began := time.Now()
			_, err := zklocks.Within(none, d.lock.Lock)(d.Context())
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
				d.Errorf("%v: error %v after %v", none, err, time.Since(began))
			}
		}
	})
}

func TestWithinWithoutAFunction(t *testing.T) {
	defer func() {
		if p := recover(); p != "zklocks: a function is nil" {
			t.Errorf("panic %v", p)
		}
	}()
	zklocks.Within(time.Second, nil)
	t.Error("no panic")
}

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

// nodes returns the number of nodes in the queue.
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

// A program that exits when a signal has canceled its work leaves no node behind: the deletion is
// answered before Do or Run returns, whether ctx is canceled before the release or during it.
func TestTheLockIsFreeWhenTheProgramMayExit(t *testing.T) {
	for name, end := range ends {
		for when, c := range map[string]struct {
			before, after time.Duration // from the cancellation to the return of work, and the reverse
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
						time.Sleep(c.before) // virtual: the work continues after the cancellation
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

// Without an answer Do and Run wait for a quarter of the session timeout, at most a second, and say
// that the node may remain.
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

// The caller still waits for the lock: its node would block all callers behind it.
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

// A reader whose node other readers still use returns at once.
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

// Until ctx is canceled Do and Run wait for the answer as long as it takes.
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

// When Within returns, the waiter's node has been deleted: the program may exit.
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
