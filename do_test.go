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
	"github.com/zklocks/zklocks/rwlock"
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

// free reports whether another process can have the lock.
func (d *desk) free() bool {
	d.Helper()
	time.Sleep(time.Second) // virtual: what is deleted in the background is
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

// A function that is nil is a mistake in the program, which must not wait for the lock to show it.
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

// A lock function without a hold is such a mistake, too, and a nil context one that takes no lock.
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
		hold, err := d.lock.TryLock(d.Context()) // which no panic has left taken
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

// Multi: "The error matches ErrLost or ErrReleased when the hold has ended." With the context of
// the hold, beside a downgrade that goes on without its caller.
func TestMultiBesideADowngradeOfALostHold(t *testing.T) {
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
