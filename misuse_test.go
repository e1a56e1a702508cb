package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

func second(_ any, err error) error { return err }

// Calls of zero values of the recipes, and of nil pointers to them, return errors.
func TestValuesThatNewHasNotMade(t *testing.T) {
	ctx := t.Context()
	work := func(context.Context, *zklocks.Hold) error { t.Error("work was called"); return nil }
	calls := map[string]map[string]error{}
	for _, m := range []*rwlock.RWMutex{nil, new(rwlock.RWMutex)} {
		calls[fmt.Sprintf("rwlock: RWMutex was not made by New, nil %v", m == nil)] = map[string]error{
			"Lock": second(m.Lock(ctx)), "TryLock": second(m.TryLock(ctx)), "RLock": second(m.RLock(ctx)), "TryRLock": second(m.TryRLock(ctx)),
			"RLocker.Lock": second(m.RLocker().Lock(ctx)), "RLocker.TryLock": second(m.RLocker().TryLock(ctx)),
			"Queue": second(m.Queue(ctx)), "Downgrade": m.Downgrade(ctx, new(zklocks.Hold)), "Do": zklocks.Do(ctx, m.Lock, work),
		}
	}
	for _, m := range []*reentrant.Mutex{nil, new(reentrant.Mutex)} {
		calls[fmt.Sprintf("reentrant: Mutex was not made by New, nil %v", m == nil)] = map[string]error{
			"Lock": second(m.Lock(ctx)), "TryLock": second(m.TryLock(ctx)), "Queue": second(m.Queue(ctx)),
		}
	}
	for _, s := range []*semaphore.Semaphore{nil, new(semaphore.Semaphore)} {
		calls[fmt.Sprintf("semaphore: Semaphore was not made by New, nil %v", s == nil)] = map[string]error{
			"Acquire": second(s.Acquire(ctx, 1)), "TryAcquire": second(s.TryAcquire(ctx, 1)), "Resize": s.Resize(ctx, 1), "Queue": second(s.Queue(ctx)),
			"Locker.Lock": second(s.Locker(1).Lock(ctx)), "Locker.TryLock": second(s.Locker(1).TryLock(ctx)), "All": second(zklocks.All(s.Locker(1)).Lock(ctx)),
		}
	}
	for _, e := range []*leader.Election{nil, new(leader.Election)} {
		observed := error(nil)
		for _, err := range e.Observe(ctx) {
			observed = err
		}
		calls[fmt.Sprintf("leader: Election was not made by New, nil %v", e == nil)] = map[string]error{
			"Campaign": second(e.Campaign(ctx)), "Run": e.Run(ctx, work), "Proclaim": e.Proclaim(ctx, new(zklocks.Hold), nil),
			"Leader": second(e.Leader(ctx)), "Queue": second(e.Queue(ctx)), "Observe": observed,
		}
	}
	for _, j := range []*once.Job{nil, new(once.Job)} {
		calls[fmt.Sprintf("once: Job was not made by New, nil %v", j == nil)] = map[string]error{
			"RunEvery": j.RunEvery(ctx, time.Second, work), "RunSlot": j.RunSlot(ctx, "1", work), "Last": second(j.Last(ctx)),
		}
	}
	for _, conn := range []*zklocks.Conn{nil, new(zklocks.Conn)} {
		calls[fmt.Sprintf("connection is nil, nil %v", conn == nil)] = map[string]error{
			"Lock": second(rwlock.New(conn, "/x").Lock(ctx)), "RequestRelease": conn.RequestRelease(ctx, zklocks.Member{Path: "/x/y"}),
		}
	}
	for what, errs := range calls {
		want, _, _ := strings.Cut(what, ",")
		for call, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: error %v", what, call, err)
			}
		}
	}
}

func TestTheZeroConn(t *testing.T) {
	var conn zklocks.Conn
	if err := conn.Close(); err != nil || conn.SessionTimeout() != 0 || conn.Client() != nil {
		t.Errorf("%v, %v, %v", err, conn.SessionTimeout(), conn.Client())
	}
	if err := (*zklocks.Conn)(nil).Close(); err == nil || err.Error() != "zklocks: the connection is nil" {
		t.Errorf("a nil Conn: %v", err)
	}
}

func TestNilOptions(t *testing.T) {
	atDesk(t, func(d *desk) {
		conn := d.server.Host("c").Connect(d, 4*time.Second, nil, zklocks.WithLogger(nil), zklocks.WithSessionEvents(nil), zklocks.WithDialer(nil))
		must(d, second(conn.Client().Sync("/")))
	})
}

func TestAHoldThatNoLockHasReturned(t *testing.T) {
	atDesk(t, func(d *desk) {
		ctx := d.Context()
		for name, hold := range map[string]*zklocks.Hold{"nil": nil, "zero": new(zklocks.Hold)} {
			for call, err := range map[string]error{
				"Err": hold.Err(), "Release": hold.Release(ctx), "Verify": hold.Verify(ctx), "Multi": second(hold.Multi(ctx)),
				"Context": context.Cause(hold.Context(ctx)),
			} {
				if !errors.Is(err, zklocks.ErrLost) || err.Error() != "lock lost: the Hold is nil, or no lock has returned it" {
					d.Errorf("%s: %s: %v", name, call, err)
				}
			}
			if hold.Held() || hold.Token() != 0 || !hold.ValidUntil().IsZero() || hold.ReleaseRequested() != nil {
				d.Errorf("%s: held %v, token %d, deadline %v", name, hold.Held(), hold.Token(), hold.ValidUntil())
			}
			<-hold.Lost()
			if err := d.lock.Downgrade(ctx, hold); !errors.Is(err, zklocks.ErrLost) {
				d.Errorf("%s: downgrade: %v", name, err)
			}
			_, err := d.conn.Client().Multi(hold.Guard(&zk.SetDataRequest{Path: "/", Version: -1})...)
			if !errors.Is(err, zk.ErrNoNode) {
				d.Errorf("%s: a transaction with its guard: %v", name, err)
			}
		}
	})
}

// Wrong calls that have no error to return, or whose error programs seldom check, panic with the
// library's text before they change anything.
func TestWhatPanics(t *testing.T) {
	atDesk(t, func(d *desk) {
		var none context.Context
		var conn *zklocks.Conn
		work := func(context.Context, *zklocks.Hold) error { d.Error("work was called"); return nil }
		for _, c := range []struct {
			says string
			call func() error
		}{
			{"zklocks: the context is nil", func() error { return second(zklocks.Connect(none, []string{"127.0.0.1:1"}, time.Second)) }},
			{"zklocks: the context is nil", func() error {
				return zklocks.Do(none, func(context.Context) (*zklocks.Hold, error) { return d.lock.Lock(d.Context()) }, work)
			}},
			{"zklocks: a function is nil", func() error { return zklocks.Do(d.Context(), nil, work) }},
			{"zklocks: a function is nil", func() error { return zklocks.Do(d.Context(), d.lock.Lock, nil) }},
			{"zklocks: a function is nil", func() error { zklocks.Within(time.Second, nil); return nil }},
			{"zklocks: neither a hold nor an error", func() error {
				return zklocks.Do(d.Context(), func(context.Context) (*zklocks.Hold, error) { return nil, nil }, work)
			}},
			{"reentrant: Mutex was not made by New", func() error { (*reentrant.Mutex)(nil).HoldCount(); return nil }},
			{"leader: Election was not made by New", func() error { (*leader.Election)(nil).Status(); return nil }},
			{"zklocks: the connection is nil", func() error { conn.Client(); return nil }},
			{"zklocks: the connection is nil", func() error { conn.Path("/a"); return nil }},
			{"zklocks: the connection is nil", func() error { conn.SessionTimeout(); return nil }},
		} {
			func() {
				defer func() {
					if p := fmt.Sprint(recover()); p != c.says {
						d.Errorf("panic %s, want %s", p, c.says)
					}
				}()
				d.Errorf("returned %v, want the panic %s", c.call(), c.says)
			}()
			if !d.free() {
				d.Errorf("%s: the lock is held", c.says)
			}
		}
	})
}
