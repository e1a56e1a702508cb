package zklocks_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// A Hold that no lock has granted is lost, whichever method is called.
func TestTheZeroHoldIsLost(t *testing.T) {
	var hold zklocks.Hold
	ctx := t.Context()
	_, multi := hold.Multi(ctx, &zk.CheckVersionRequest{Path: "/", Version: -1})
	for what, err := range map[string]error{
		"Err": hold.Err(), "Release": hold.Release(ctx), "Verify": hold.Verify(ctx), "Multi": multi, "Context": context.Cause(hold.Context(ctx)),
	} {
		if !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	select {
	case <-hold.Lost():
	default:
		t.Error("Lost is open")
	}
	select {
	case <-hold.ReleaseRequested():
		t.Error("asked to release")
	default:
	}
	if hold.Held() || hold.Token() != 0 || !hold.ValidUntil().IsZero() || len(hold.Guard("op")) != 2 {
		t.Errorf("held %v, token %d, deadline %v, guard %v", hold.Held(), hold.Token(), hold.ValidUntil(), hold.Guard("op"))
	}
}

// Programs cannot reach what the types embed.
func TestTheTypesShowOnlyTheirMethods(t *testing.T) {
	for _, tc := range []struct {
		value   any
		methods []string
	}{
		{&zklocks.Hold{}, []string{"Context", "Err", "Guard", "Held", "LogValue", "Lost", "Multi", "Release", "ReleaseRequested", "String", "Token", "ValidUntil", "Verify"}},
		{&zklocks.Conn{}, []string{"Client", "Close", "Path", "RequestRelease", "SessionTimeout"}},
	} {
		typ := reflect.TypeOf(tc.value)
		var methods []string
		for m := range typ.NumMethod() {
			methods = append(methods, typ.Method(m).Name)
		}
		if !slices.Equal(methods, tc.methods) {
			t.Errorf("%v has the methods %q", typ, methods)
		}
		for _, f := range reflect.VisibleFields(typ.Elem()) {
			if f.IsExported() {
				t.Errorf("%v has the field %s", typ, f.Name)
			}
		}
	}
}

// defer hold.Release(context.WithoutCancel(ctx)), with the context of the hold, is how a program
// waits for the answer although its work was canceled.
func TestReleaseWithADetachedContextWaitsForTheAnswer(t *testing.T) {
	atDesk(t, func(d *desk) {
		parent, cancel := context.WithCancel(d.Context())
		hold, err := d.lock.Lock(parent)
		if err != nil {
			d.Fatal(err)
		}
		ctx := hold.Context(parent)
		cancel()
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer stop()
		if err := hold.Release(bounded); err != nil {
			d.Errorf("a context that lives for 3 s more: %v", err)
		}
	})
}

// A context that is detached from that of the hold bounds the wait of Release by itself: the end of
// the parent, which comes during the wait, does not end it.
func TestADetachedContextOutlivesTheParentDuringRelease(t *testing.T) {
	for name, open := range map[string]func(*zklocks.Conn) zklocks.Locker{
		"rwlock":    func(c *zklocks.Conn) zklocks.Locker { return rwlock.New(c, path) },
		"reentrant": func(c *zklocks.Conn) zklocks.Locker { return reentrant.New(c, path) },
		"semaphore": func(c *zklocks.Conn) zklocks.Locker { return semaphore.New(c, path, 1).Locker(1) },
		"All": func(c *zklocks.Conn) zklocks.Locker {
			return zklocks.All(rwlock.New(c, path), semaphore.New(c, path+"-permits", 1).Locker(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				host := s.Host("a")
				hold, err := open(host.Connect(t, 10*time.Second)).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				parent, cancel := context.WithCancel(t.Context())
				defer cancel()
				ctx, stop := context.WithTimeout(context.WithoutCancel(hold.Context(parent)), 3*time.Second)
				defer stop()
				answer := host.Next(zktest.Delete, zktest.HoldReply)
				released := make(chan error, 1)
				go func() { released <- hold.Release(ctx) }()
				<-answer.Fired()
				cancel()
				synctest.Wait()
				select {
				case err := <-released:
					t.Fatalf("the parent has ended, and with it the wait: %v", err)
				default:
				}
				answer.Release()
				if err := <-released; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
