package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// second is the error of a call that returns something else, too.
func second(_ any, err error) error { return err }

// The zero values of the recipes, and nil pointers to them, are errors that say so.
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
	for what, errs := range calls {
		want, _, _ := strings.Cut(what, ",")
		for call, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: error %v", what, call, err)
			}
		}
	}
}

// A lock that is nil is the most likely mistake of those that All refuses.
func TestAllNamesANilLock(t *testing.T) {
	for name, lock := range map[string]zklocks.Locker{"<nil>": nil, "*rwlock.RWMutex": (*rwlock.RWMutex)(nil)} {
		_, err := zklocks.All(lock).Lock(t.Context())
		if want := "zklocks: lock all: " + name + ": not a lock that New of rwlock, reentrant or semaphore has made, or nil"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What cannot return an error panics with the same text.
func TestNilValuesPanicWithAText(t *testing.T) {
	var conn *zklocks.Conn
	for what, call := range map[string]func(){
		"reentrant: Mutex was not made by New":  func() { (*reentrant.Mutex)(nil).HoldCount() },
		"leader: Election was not made by New":  func() { (*leader.Election)(nil).Status() },
		"zklocks: the connection is nil":        func() { conn.Client() },
		"zklocks: the connection is nil, again": func() { conn.Path("/a") },
		"zklocks: the connection is nil, twice": func() { conn.SessionTimeout() },
	} {
		func() {
			defer func() {
				if want, _, _ := strings.Cut(what, ","); fmt.Sprint(recover()) != want {
					t.Errorf("no panic %q", want)
				}
			}()
			call()
		}()
	}
	if err := conn.Close(); err == nil || err.Error() != "zklocks: the connection is nil" {
		t.Errorf("close: %v", err)
	}
	if err := conn.RequestRelease(t.Context(), zklocks.Member{Path: "/a"}); err == nil || !strings.Contains(err.Error(), "the connection is nil") {
		t.Errorf("request release: %v", err)
	}
}

// A nil Hold is lost, as the zero Hold is, and its errors say what it is.
func TestNilHold(t *testing.T) {
	for name, hold := range map[string]*zklocks.Hold{"nil": nil, "zero": new(zklocks.Hold)} {
		for call, err := range map[string]error{
			"Err": hold.Err(), "Release": hold.Release(t.Context()), "Verify": hold.Verify(t.Context()), "Multi": second(hold.Multi(t.Context())),
			"Context": context.Cause(hold.Context(t.Context())),
		} {
			if !errors.Is(err, zklocks.ErrLost) || err.Error() != "lock lost: the Hold is nil, or no lock has returned it" {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
		if hold.Held() || hold.Token() != 0 || !hold.ValidUntil().IsZero() || hold.ReleaseRequested() != nil || len(hold.Guard()) != 1 {
			t.Errorf("%s: it seems to be held", name)
		}
		<-hold.Lost()
	}
}
