package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
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

func atDesk(t *testing.T, f func(d *desk)) { t.Helper(); atDeskFor(t, 4*time.Second, f) }

// atDeskFor is atDesk with another session timeout of the lock.
func atDeskFor(t *testing.T, timeout time.Duration, f func(d *desk), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, opts...)
		host := s.Host("a")
		d := &desk{T: t, server: s, host: host, conn: host.Connect(t, timeout), other: s.Host("b").Connect(t, 4*time.Second)}
		d.lock = rwlock.New(d.conn, path)
		f(d)
	})
}

type acquire = func(context.Context) (*zklocks.Hold, error)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// take acquires a lock.
func take(tb testing.TB, lock acquire) *zklocks.Hold {
	tb.Helper()
	h, err := lock(tb.Context())
	must(tb, err)
	return h
}

func release(tb testing.TB, h *zklocks.Hold) {
	tb.Helper()
	if err := h.Release(tb.Context()); err != nil {
		tb.Error(err)
	}
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
	lost := hold.Lost() // sets the watch
	must(d, d.other.Client().Delete(contract.NodeOf(hold), -1))
	<-lost
}

var errWork = errors.New("work failed")

// stopped waits until the context of the work is canceled, which must be at once.
func (d *desk) stopped(ctx context.Context) context.Context {
	d.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
		d.Error("the context of the work goes on")
	}
	return ctx
}

func TestDo(t *testing.T) {
	for name, tc := range map[string]struct {
		work  func(d *desk, cancel func(), ctx context.Context, hold *zklocks.Hold) error
		match []error // nil: no error
	}{
		"work succeeds": {work: func(d *desk, _ func(), ctx context.Context, hold *zklocks.Hold) error {
			if !hold.Held() || ctx.Err() != nil || d.free() {
				d.Error("work runs without the lock")
			}
			return nil
		}},
		"work fails": {
			work:  func(*desk, func(), context.Context, *zklocks.Hold) error { return errWork },
			match: []error{errWork},
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
				return d.stopped(ctx).Err()
			},
			match: []error{zklocks.ErrLost, context.Canceled},
		},
		"the lock is lost and work says so": {
			work: func(d *desk, _ func(), ctx context.Context, hold *zklocks.Hold) error {
				d.lose(hold)
				return context.Cause(d.stopped(ctx))
			},
			match: []error{zklocks.ErrLost},
		},
		"the context ends and work is done": {work: func(_ *desk, cancel func(), ctx context.Context, _ *zklocks.Hold) error {
			cancel()
			return nil
		}},
		"the context ends and work stops": {
			work: func(d *desk, cancel func(), ctx context.Context, _ *zklocks.Hold) error {
				cancel()
				return d.stopped(ctx).Err()
			},
			match: []error{context.Canceled},
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
				if errors.Is(err, zklocks.ErrLost) != slices.Contains(tc.match, zklocks.ErrLost) {
					t.Errorf("error: %v, which matches ErrLost", err)
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

// hooked is a context that is never canceled. It counts what waits for its end.
type hooked struct {
	context.Context
	done chan struct{} // the context package would pass a Done of its own by, and not call AfterFunc
	kept atomic.Int64
}

func (h *hooked) Done() <-chan struct{} { return h.done }

func (h *hooked) AfterFunc(func()) (stop func() bool) {
	h.kept.Add(1)
	return sync.OnceValue(func() bool { h.kept.Add(-1); return true })
}

// A program may pass the same context to each call for as long as it runs.
func TestACallKeepsNothingOnItsContext(t *testing.T) {
	ended := func(context.Context, *zklocks.Hold) error { return nil }
	for name, call := range map[string]func(context.Context, *desk) error{
		"Do": func(ctx context.Context, d *desk) error { return zklocks.Do(ctx, d.lock.Lock, ended) },
		"Within": func(ctx context.Context, d *desk) error {
			return zklocks.Do(ctx, zklocks.Within(time.Second, d.lock.Lock), ended)
		},
		"All": func(ctx context.Context, d *desk) error {
			return zklocks.Do(ctx, zklocks.All(d.lock, rwlock.New(d.conn, path+"/b")).Lock, ended)
		},
		"a wait": func(ctx context.Context, d *desk) error {
			h := take(d, rwlock.New(d.other, path).Lock)
			time.AfterFunc(time.Second, func() { release(d, h) })
			return zklocks.Do(ctx, d.lock.Lock, ended)
		},
		"a wait that ends": func(ctx context.Context, d *desk) error {
			defer release(d, take(d, rwlock.New(d.other, path).Lock))
			_, err := zklocks.Within(time.Second, d.lock.Lock)(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return fmt.Errorf("error %v, want %w", err, context.DeadlineExceeded)
		},
		"a loss": func(ctx context.Context, d *desk) error {
			err := zklocks.Do(ctx, d.lock.Lock, func(_ context.Context, hold *zklocks.Hold) error { d.lose(hold); return nil })
			if errors.Is(err, zklocks.ErrLost) {
				return nil
			}
			return fmt.Errorf("error %v, want %w", err, zklocks.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				ctx := &hooked{Context: t.Context(), done: make(chan struct{})}
				must(t, call(ctx, d))
				synctest.Wait()
				if n := ctx.kept.Load(); n != 0 {
					t.Errorf("%d functions wait for the end of its context", n)
				}
			})
		})
	}
}

func TestDoDoesNotWorkWithoutTheLock(t *testing.T) {
	atDesk(t, func(d *desk) {
		work := func(context.Context, *zklocks.Hold) error { d.Error("work was called"); return nil }
		hold := take(d, rwlock.New(d.other, path).Lock)
		if err := zklocks.Do(d.Context(), d.lock.TryLock, work); !errors.Is(err, zklocks.ErrBusy) {
			d.Errorf("the lock is taken: %v", err)
		}
		release(d, hold)
		again := func(context.Context) (*zklocks.Hold, error) { return hold, nil }
		if err := zklocks.Do(d.Context(), again, work); !errors.Is(err, zklocks.ErrReleased) {
			d.Errorf("the hold was released before: %v", err)
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

// Within: "If d passes first, the function returns lock's error, which matches
// context.DeadlineExceeded and names d. By then the caller has left the queue". The deletion of its
// node takes two round trips.
func TestWithinEndsTheWait(t *testing.T) {
	atDesk(t, func(d *desk) {
		const limit, trip = 2 * time.Second, 200 * time.Millisecond
		mutex, permit := reentrant.New(d.conn, path), semaphore.New(d.conn, path+"/permits", 1).Locker(1)
		release(d, take(d, zklocks.All(d.lock, permit).Lock)) // the directories exist, and were read
		for name, c := range map[string]struct {
			holds, lock acquire
			says        string
		}{
			"a writer":      {rwlock.New(d.other, path).Lock, d.lock.Lock, "rwlock: lock /do: context deadline exceeded: not granted within 2s"},
			"a reader":      {rwlock.New(d.other, path).Lock, d.lock.RLock, "rwlock: read lock /do: context deadline exceeded: not granted within 2s"},
			"a mutex":       {reentrant.New(d.other, path).Lock, mutex.Lock, "reentrant: lock /do: context deadline exceeded: not granted within 2s"},
			"a permit":      {semaphore.New(d.other, path+"/permits", 1).Locker(1).Lock, permit.Lock, "semaphore: acquire /do/permits: context deadline exceeded: not granted within 2s"},
			"several locks": {rwlock.New(d.other, path).Lock, zklocks.All(d.lock, permit).Lock, "not granted within 2s"},
		} {
			hold := take(d, c.holds)
			d.host.Delay(trip / 2) // each way
			began := time.Now()
			_, err := zklocks.Within(limit, c.lock)(d.Context())
			if took := time.Since(began).Round(10 * time.Millisecond); took != limit+trip {
				d.Errorf("%s: it took %v, want the limit and the answer to the deletion", name, took)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "leaving the queue") {
				d.Errorf("%s: error %v, want %q", name, err, c.says)
			}
			d.host.Heal()
			release(d, hold)
			if !d.free() {
				d.Errorf("%s: a caller whose wait is over is queued", name)
			}
		}
	})
}

// Within: "d has no effect on the hold and its contexts."
func TestWithinDoesNotEndTheWork(t *testing.T) {
	atDesk(t, func(d *desk) {
		must(d, zklocks.Do(d.Context(), zklocks.Within(time.Second, d.lock.Lock), func(ctx context.Context, hold *zklocks.Hold) error {
			time.Sleep(time.Minute) // virtual: much longer than the limit
			if ctx.Err() != nil || !hold.Held() {
				d.Errorf("context %v, hold %v", ctx.Err(), hold.Err())
			}
			if _, limited := ctx.Deadline(); limited {
				d.Error("the context of work has a deadline")
			}
			return nil
		}))
	})
}

// ctx ends the wait, too: then the error does not name d. "If d is zero or negative, the function
// fails without sending a request."
func TestWithinEndsAtOnceOrWithItsContext(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold := take(d, rwlock.New(d.other, path).Lock)
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
		release(d, hold)
		before := d.host.Seen(zktest.Any)
		for _, none := range []time.Duration{0, -time.Second} {
			_, err := zklocks.Within(none, d.lock.Lock)(d.Context())
			if n := d.host.Seen(zktest.Any) - before; n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				d.Errorf("%v: error %v after %d requests", none, err, n)
			}
		}
	})
}

type work = func(context.Context, *zklocks.Hold) error

// ends are calls that acquire a lock, work, and release it.
var ends = map[string]func(context.Context, *zklocks.Conn, work) error{
	"Do": func(ctx context.Context, conn *zklocks.Conn, w work) error {
		return zklocks.Do(ctx, rwlock.New(conn, path).Lock, w)
	},
	"Do with several locks": func(ctx context.Context, conn *zklocks.Conn, w work) error {
		return zklocks.Do(ctx, zklocks.All(rwlock.New(conn, path), rwlock.New(conn, path+"/other")).Lock, w)
	},
	"Do with a reader": func(ctx context.Context, conn *zklocks.Conn, w work) error {
		return zklocks.Do(ctx, rwlock.New(conn, path).RLock, w)
	},
	"Run": func(ctx context.Context, conn *zklocks.Conn, w work) error { return leader.New(conn, path).Run(ctx, w) },
}

// nodes returns the number of nodes in the queue.
func (d *desk) nodes() int {
	d.Helper()
	return len(slices.DeleteFunc(test.Children(d, d.other.Client(), path), func(name string) bool { return name == "other" }))
}

// A program that exits when a signal has canceled its work leaves no node behind: the deletion is
// answered before Do or Run returns, whether ctx is canceled before the release or during it.
func TestTheLockIsFreeWhenTheProgramMayExit(t *testing.T) {
	for name, end := range ends {
		for when, during := range map[string]bool{"work stops because of it": false, "during the release": true} {
			t.Run(name+"/"+when, func(t *testing.T) {
				atDesk(t, func(d *desk) {
					ctx, cancel := context.WithCancel(d.Context())
					defer cancel()
					err := end(ctx, d.conn, func(context.Context, *zklocks.Hold) error {
						d.host.Delay(100 * time.Millisecond) // each way: longer than any race
						if during {
							time.AfterFunc(50*time.Millisecond, cancel)
							return errWork
						}
						cancel()
						time.Sleep(time.Millisecond) // virtual: the work continues after the cancellation
						return context.Canceled
					})
					if left := d.nodes(); left != 0 {
						d.Errorf("%d nodes are left when it returns", left)
					}
					if err == nil || strings.Contains(err.Error(), "no answer") {
						d.Errorf("error %v", err)
					}
				})
			})
		}
	}
}

// Without an answer Do and Run wait for a quarter of the session timeout, at most a second, and say
// that the node may remain. The error also has the error of the work.
func TestAReleaseWithoutAnAnswerIsReported(t *testing.T) {
	for name, end := range ends {
		for timeout, want := range map[time.Duration]time.Duration{2 * time.Second: 500 * time.Millisecond, 10 * time.Second: time.Second} {
			t.Run(name+"/"+timeout.String(), func(t *testing.T) {
				atDeskFor(t, timeout, func(d *desk) {
					for _, failure := range []error{nil, errWork} {
						ctx, cancel := context.WithCancel(d.Context())
						var began time.Time
						err := end(ctx, d.conn, func(ctx context.Context, _ *zklocks.Hold) error {
							cancel()
							<-ctx.Done()
							d.host.Partition()
							began = time.Now()
							return failure
						})
						if took := time.Since(began); took != want {
							d.Errorf("it waited for %v, want %v", took, want)
						}
						if !errors.Is(err, context.Canceled) || errors.Is(err, zklocks.ErrLost) || !strings.Contains(err.Error(), "no answer within "+want.String()+": the node may stay until the session ends") {
							d.Errorf("error %v", err)
						}
						if failure != nil && name == "Do" && (!errors.Is(err, failure) || !strings.HasPrefix(err.Error(), "work failed; and rwlock: release /do: context canceled: no answer within")) {
							d.Errorf("error %v, want also the error of the work", err)
						}
						d.host.Heal()
						time.Sleep(time.Minute) // virtual: it is connected again
					}
				}, zktest.WithTick(time.Second))
			})
		}
	}
}

// The caller still waits for the lock: its node would block all callers behind it.
func TestTheQueueIsLeftWhenTheProgramMayExit(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			atDeskFor(t, 10*time.Second, func(d *desk) {
				ahead := rwlock.New(d.other, path).Lock
				if name == "Run" {
					ahead = leader.New(d.other, path).Campaign
				}
				hold := take(d, ahead)
				for without, want := range map[string]time.Duration{"": 200 * time.Millisecond, "no answer within 1s: the node may stay": time.Second} {
					ctx, cancel := context.WithCancel(d.Context())
					result := make(chan error, 1)
					go func() {
						result <- end(ctx, d.conn, func(context.Context, *zklocks.Hold) error { return errWork })
					}()
					time.Sleep(time.Second) // virtual: it waits
					if waits := d.nodes(); waits != 2 {
						d.Errorf("%d nodes, want the holder's and the waiter's", waits)
					}
					d.host.Delay(100 * time.Millisecond) // each way
					if without != "" {
						d.host.Partition()
					}
					began := time.Now()
					cancel()
					err := <-result
					if took := time.Since(began); took.Round(10*time.Millisecond) != want {
						d.Errorf("it took %v, want %v", took, want)
					}
					if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), without) || without == "" && strings.Contains(err.Error(), "no answer") {
						d.Errorf("error %v", err)
					}
					if left := d.nodes(); without == "" && left != 1 {
						d.Errorf("%d nodes when it returns, want the holder's", left)
					}
					d.host.Heal()
					time.Sleep(time.Minute) // virtual
				}
				release(d, hold)
			})
		})
	}
}

// A reader whose node other readers still use returns at once.
func TestAReaderLeavesOthersAtOnce(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold := take(d, rwlock.New(d.other, path).Lock)
		ctx, cancel := context.WithCancel(d.Context())
		result, stays := make(chan error, 1), make(chan error, 1)
		nothing := func(context.Context, *zklocks.Hold) error { return nil }
		go func() { result <- zklocks.Do(ctx, d.lock.RLock, nothing) }()
		go func() { stays <- zklocks.Do(d.Context(), d.lock.RLock, nothing) }()
		time.Sleep(time.Second) // virtual: both wait
		began := time.Now()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			d.Errorf("error %v after %v", err, time.Since(began))
		}
		release(d, hold)
		if err := <-stays; err != nil {
			d.Errorf("the reader that stays: %v", err)
		}
	})
}
