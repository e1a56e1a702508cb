package zklocks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/rwlock"
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

// The server withholds the event of the deletion while the holder may not read its own node. The
// holder is told when it has held for about as long again.
func TestALossOfWhichNoEventTells(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		h, err := rwlock.New(locks.On(s.Connect()), s.Path).Lock(s.Ctx)
		s.Must(err)
		lost := h.Lost()
		const long = 10 * time.Second
		time.Sleep(long) // virtual: it looks
		_, err = s.Witness.SetACL(contract.NodeOf(h), zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		s.Must(err)
		s.Must(s.Witness.Delete(contract.NodeOf(h), -1))
		select {
		case <-lost:
		case <-time.After(long): // virtual: until the next look
			s.Error("its node was deleted, and Lost is open")
		}
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	})
}

// A holder that may not read its own node when it is first asked, or when the connection is
// replaced, finds out like one that may.
func TestALossOfANodeThatMayNotBeRead(t *testing.T) {
	for name, before := range map[string]bool{"at the first call": false, "before a reconnect": true} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				conn, through := s.Behind()
				h, err := rwlock.New(locks.On(conn), s.Path).Lock(s.Ctx)
				s.Must(err)
				if before {
					h.Lost()
					time.Sleep(time.Second) // virtual: it is watched
				}
				_, err = s.Witness.SetACL(contract.NodeOf(h), zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
				s.Must(err)
				if before {
					through.Cut()
				}
				lost := h.Lost()
				time.Sleep(time.Second) // virtual: the watch was refused, or set again
				s.Must(s.Witness.Delete(contract.NodeOf(h), -1))
				select {
				case <-lost:
				case <-time.After(10 * time.Second): // virtual: longer than until the first look
					s.Error("its node was deleted, and Lost is open")
				}
				s.Is(h.Release(s.Ctx), zklocks.ErrLost)
			})
		})
	}
}
