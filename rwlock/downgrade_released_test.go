package rwlock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

// Release ends the hold during its Downgrade, and then the node is deleted, with its session or
// alone. The hold was released, so that is not a loss. Downgrade must return ErrReleased, not the
// server's error for the node.
func TestADowngradeDuringAReleaseReturnsErrReleased(t *testing.T) {
	for _, session := range []bool{true, false} {
		t.Run(map[bool]string{true: "expired", false: "deleted"}[session], func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				p := v.Proxy(t, v.Servers(t)[0])
				conn, witness := v.Connect(t, 10*time.Second, p.Addr()), v.Connect(t, 10*time.Second)
				mu := rwlock.New(locks.On(conn), "/lock")
				h, err := mu.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				node := contract.NodeOf(h)
				move := p.Next(proxy.MoveOp, proxy.HoldRequest)
				down := contract.Begin(t, t.Context(), func(ctx context.Context) (any, error) { return nil, mu.Downgrade(ctx, h) })
				<-move.Fired()
				unlocked := contract.Begin(t, t.Context(), func(ctx context.Context) (any, error) { return nil, h.Release(ctx) })
				time.Sleep(time.Millisecond) // Release has ended the hold, and waits for the result of the downgrade
				if session {
					v.Expire(t, conn)
				} else if err := witness.Delete(node, -1); err != nil {
					t.Fatal(err)
				}
				move.Release()
				if err := down.Failed(); !errors.Is(err, zklocks.ErrReleased) {
					t.Errorf("downgrade: %v, want an error that matches ErrReleased", err)
				}
				unlocked.Ended()
			})
		})
	}
}

// A Release whose ctx was canceled does not wait for a Downgrade under way. The event of the
// release comes after the events of the downgrade nevertheless.
func TestTheEventsOfADowngradeComeBeforeTheEndOfTheHold(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := v.Connect(t, 10*time.Second, p.Addr())
		events := make(chan string, 20)
		mu := rwlock.New(locks.On(conn), "/lock", zklocks.WithObserver(observe.Observer{
			Granted:  func(e observe.Granted) { events <- "granted for " + string(e.Kind) },
			Released: func(e observe.Released) { events <- "released for " + string(e.Kind) },
		}))
		h, err := mu.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		move := p.Next(proxy.MoveOp, proxy.HoldRequest)
		down := contract.Begin(t, t.Context(), func(ctx context.Context) (any, error) { return nil, mu.Downgrade(ctx, h) })
		<-move.Fired()
		if err := h.Release(canceled(t.Context())); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		synctest.Wait()
		move.Release()
		down.Ended()
		test.AssertEmpty(t, conn, "/lock")
		synctest.Wait()
		close(events)
		var got []string
		for e := range events {
			got = append(got, e)
		}
		if want := []string{"granted for write", "released for write", "granted for read", "released for read"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
