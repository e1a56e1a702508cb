package zklocks_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
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
	if hold.Held() || hold.Token() != 0 || !hold.Deadline().IsZero() || len(hold.Guard("op")) != 2 {
		t.Errorf("held %v, token %d, deadline %v, guard %v", hold.Held(), hold.Token(), hold.Deadline(), hold.Guard("op"))
	}
}

// Programs cannot reach what the types embed.
func TestTheTypesShowOnlyTheirMethods(t *testing.T) {
	for _, tc := range []struct {
		value   any
		methods []string
	}{
		{&zklocks.Hold{}, []string{"Context", "Deadline", "Err", "Guard", "Held", "Lost", "Multi", "Release", "ReleaseRequested", "Token", "Verify"}},
		{&zklocks.Conn{}, []string{"Client", "Close", "RequestRelease", "SessionTimeout"}},
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
// waits for the answer although its work was cancelled.
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
