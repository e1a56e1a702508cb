package zklocks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/zktest"
)

// A write behind the guard of a hold that no lock has granted fails.
func TestTheGuardOfTheZeroHoldFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.NewServer(t).Host("a").Connect(t, 4*time.Second).Client()
		if _, err := client.Create("/data", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		_, err := client.Multi(new(zklocks.Hold).Guard(&zk.SetDataRequest{Path: "/data", Version: -1})...)
		if !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("the transaction: %v, want %v", err, zk.ErrNoNode)
		}
		if _, stat, err := client.Exists("/data"); err != nil || stat.Version != 0 {
			t.Errorf("written: %+v, %v", stat, err)
		}
	})
}

// The context of the work ends at once when the lock is lost, with the loss as its cause.
func TestWorkOfDoEndsWithTheHold(t *testing.T) {
	atDesk(t, func(d *desk) {
		err := zklocks.Do(d.Context(), d.lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
			d.lose(hold)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				t.Error("the lock is lost, and the context of the work goes on")
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("error: %v", err)
		}
	})
}
