package reentrant_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/zktest"
)

const soon = 20 * time.Second // longer than any step

// client is a Mutex on its own connection.
type client struct {
	*contract.Stage
	*reentrant.Mutex
	conn  *wire.Conn
	proxy *proxy.Proxy
}

func newClient(s *contract.Stage) *client {
	s.Helper()
	conn, p := s.Behind()
	return &client{s, reentrant.New(locks.On(conn), s.Path), conn, p}
}

// lock takes the lock on the test's own goroutine.
func (c *client) lock(ctx context.Context) *zklocks.Hold {
	c.Helper()
	h, err := c.Lock(ctx)
	c.Must(err)
	return h
}

func (c *client) holds(want int) {
	c.Helper()
	if n := c.HoldCount(); n != want {
		c.Errorf("%d holds, want %d", n, want)
	}
}

func (c *client) busy(ctx context.Context) {
	c.Helper()
	_, err := c.TryLock(ctx)
	c.Is(err, zklocks.ErrBusy)
}

func elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func release(s *contract.Stage, h *zklocks.Hold) { s.Helper(); s.Must(h.Release(s.Ctx)) }

func TestTheLockIsHeldUntilTheLastOfItsHoldsIsReleased(t *testing.T) {
	for name, order := range map[string][3]int{
		"inner first": {2, 1, 0}, "outer first": {0, 1, 2}, "mixed": {1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c, other := newClient(s), newClient(s)
				var holds [3]*zklocks.Hold
				var ctxs [3]context.Context
				for i := range holds {
					c.holds(i)
					holds[i] = c.lock(s.Ctx)
					ctxs[i] = holds[i].Context(s.Ctx)
				}
				s.InLine(1)
				for i, which := range order {
					c.holds(3 - i)
					other.busy(s.Ctx)
					for _, later := range order[i:] {
						if h := holds[later]; !h.Held() || h.Err() != nil || contract.Closed(h.Lost()) || ctxs[later].Err() != nil || h.ValidUntil().IsZero() {
							s.Errorf("hold %d has ended with another", later)
						}
						s.Must(holds[later].Verify(s.Ctx))
					}
					h := holds[which]
					release(s, h)
					if h.Held() || contract.Closed(h.Lost()) || ctxs[which].Err() == nil || !h.ValidUntil().IsZero() {
						s.Errorf("hold %d goes on after its release", which)
					}
					s.Is(h.Err(), zklocks.ErrReleased)
					_, err := h.Multi(s.Ctx)
					s.Is(err, zklocks.ErrReleased) // although the node still exists
					s.Is(context.Cause(ctxs[which]), zklocks.ErrReleased)
					s.Is(h.Release(s.Ctx), zklocks.ErrReleased) // and ends no other hold
					s.Is(h.Verify(s.Ctx), zklocks.ErrReleased)
				}
				s.EmptyNow()
				c.holds(0)
				for _, h := range holds {
					s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
				}
				release(s, c.lock(s.Ctx)) // the counts are not negative
				c.holds(0)
			})
		})
	}
}

func TestReentrySendsNoRequest(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		h := c.lock(s.Ctx)
		ctx := h.Context(s.Ctx) // sets the watch
		s.CatchUp(c.conn)
		before := c.proxy.Seen(proxy.AnyOp) - c.proxy.Seen(proxy.CheckOp) // except heartbeats
		for range 100 {
			release(s, c.lock(s.Ctx))
			inner, err := c.TryLock(ctx)
			s.Must(err)
			release(s, inner)
		}
		if n := c.proxy.Seen(proxy.AnyOp) - c.proxy.Seen(proxy.CheckOp) - before; n != 0 {
			s.Errorf("%d requests", n)
		}
		release(s, h)
	})
}

func TestOtherGoroutinesReenterByTheContext(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		h := c.lock(s.Ctx)
		ctx, cancel := context.WithTimeout(h.Context(s.Ctx), soon)
		defer cancel()
		elsewhere(func() {
			c.busy(s.Ctx) // without the context, it is another owner
			c.holds(0)
			inner, err := c.Lock(ctx)
			if err != nil {
				s.Error(err)
				return
			}
			if inner.Token() != h.Token() {
				s.Errorf("token %d in a hold on %d", inner.Token(), h.Token())
			}
			c.holds(1)
			deeper, err := c.Lock(s.Ctx) // the goroutine owns the lock now
			if err != nil {
				s.Error(err)
				return
			}
			c.holds(2)
			s.Is(deeper.Release(s.Ctx), nil)
			s.Is(inner.Release(s.Ctx), nil)
			c.holds(0)
			c.busy(s.Ctx)
		})
		c.holds(1)
		s.InLine(1)
		release(s, h)
		s.EmptyNow()

		// The hold's context was canceled with the hold.
		_, err := c.Lock(ctx)
		s.Is(err, zklocks.ErrReleased)
		s.EmptyNow()
	})
}

// A goroutine that re-entered with the context may hold the lock longer than the goroutine that
// acquired it.
func TestTheLockGoesWithItsLastHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := newClient(s), newClient(s)
		h := c.lock(s.Ctx)
		var inner *zklocks.Hold
		elsewhere(func() { inner, _ = c.Lock(h.Context(s.Ctx)) })
		release(s, h)
		c.holds(0)
		c.busy(s.Ctx) // this goroutine has no holds left
		other.busy(s.Ctx)
		if !inner.Held() {
			s.Error("the other goroutine's hold ended with this one's")
		}
		s.Must(inner.Verify(s.Ctx))
		release(s, inner)
		release(s, other.lock(s.Ctx))
	})
}

func TestAnotherGoroutineMayUnlock(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		a, b := c.lock(s.Ctx), c.lock(s.Ctx)
		elsewhere(func() { s.Is(a.Release(s.Ctx), nil) })
		c.holds(1)
		s.InLine(1)
		elsewhere(func() { s.Is(b.Release(s.Ctx), nil) })
		c.holds(0)
		s.EmptyNow()
		release(s, c.lock(s.Ctx))
	})
}

// A goroutine that still uses the context of a released hold is not the owner.
func TestTheContextOfAnEndedHoldDoesNotReenter(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		h := c.lock(s.Ctx)
		kept := context.WithoutCancel(h.Context(s.Ctx))
		release(s, h)
		again := c.lock(kept)
		if again.Token() <= h.Token() {
			s.Error("the hold that had ended was entered")
		}
		inner := c.lock(kept) // this goroutine is the owner
		c.holds(2)
		release(s, inner)
		release(s, again)
	})
}

func TestAnotherValueIsAnotherOwner(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		other := &client{s, reentrant.New(locks.On(c.conn), s.Path), c.conn, c.proxy}
		h := c.lock(s.Ctx)
		other.busy(s.Ctx)
		other.busy(h.Context(s.Ctx))
		other.holds(0)
		release(s, h)
	})
}

func TestReentryIntoALostLockIsRefused(t *testing.T) {
	for name, lose := range map[string]func(*client){
		"deleted": func(c *client) {
			c.Must(c.Witness.Client().Delete(c.Dir+"/"+test.Children(c, c.Witness.Client(), c.Dir)[0], -1))
		},
		"expired": func(c *client) { c.Expire(c.conn) },
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c := newClient(s)
				outer, inner := c.lock(s.Ctx), c.lock(s.Ctx)
				ctx := outer.Context(context.WithoutCancel(s.Ctx))
				lost := inner.Lost()
				lose(c)
				s.Lost(lost)
				s.Lost(outer.Lost())
				if outer.Held() || inner.Held() {
					s.Error("held and lost")
				}
				for _, ctx := range []context.Context{s.Ctx, ctx} {
					_, err := c.Lock(ctx)
					s.Is(err, zklocks.ErrLost)
					_, err = c.TryLock(ctx)
					s.Is(err, zklocks.ErrLost)
				}
				c.holds(2)
				s.Is(inner.Release(s.Ctx), zklocks.ErrLost)
				s.Is(inner.Release(s.Ctx), zklocks.ErrReleased)
				_, err := c.Lock(s.Ctx)
				s.Is(err, zklocks.ErrLost) // one hold is left
				s.Is(outer.Release(s.Ctx), zklocks.ErrLost)
				c.holds(0)
				h := c.lock(s.Ctx)
				s.Must(h.Verify(s.Ctx))
				if h.Token() <= outer.Token() {
					s.Errorf("token %d after %d", h.Token(), outer.Token())
				}
				release(s, h)
			})
		})
	}
}

// Another hold keeps the lock, so Verify must report that this hold was released meanwhile.
func TestVerifyOfAHoldThatEndsMeanwhile(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		h, other := c.lock(s.Ctx), c.lock(s.Ctx)
		for _, ctx := range []context.Context{h.Context(s.Ctx), s.Ctx} {
			f := c.proxy.Next(proxy.CheckOp, proxy.HoldReply)
			a := contract.Begin(s, s.Ctx, func(context.Context) (any, error) { return nil, h.Verify(ctx) })
			s.Fired(f)
			release(s, h)
			if ctx == s.Ctx {
				f.Release() // the answer is that the node exists
			}
			s.Is(a.Failed(), zklocks.ErrReleased)
			f.Release()
			s.Must(other.Verify(s.Ctx))
			h = c.lock(s.Ctx)
		}
		release(s, h)
		release(s, other)
	})
}

// A goroutine has lost the lock and not released its holds. It may enter another goroutine's grant,
// and keeps its own holds.
func TestALostGrantIsNotForgottenForAnother(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		for _, lostFirst := range []bool{false, true} {
			lost := c.lock(s.Ctx)
			told := lost.Lost()
			s.Must(s.Witness.Client().Delete(s.Dir+"/"+test.Children(s, s.Witness.Client(), s.Dir)[0], -1))
			s.Lost(told)

			var other *zklocks.Hold
			elsewhere(func() { other, _ = c.Lock(s.Ctx) })
			inner, again := c.lock(other.Context(s.Ctx)), c.lock(s.Ctx) // the hold again is on the grant that this goroutine entered last
			if inner.Token() != other.Token() || again.Token() != other.Token() {
				s.Error("another grant was entered")
			}
			c.holds(3)
			release(s, again)
			if lostFirst {
				s.Is(lost.Release(s.Ctx), zklocks.ErrLost)
				c.holds(1)
				release(s, c.lock(s.Ctx))
			}
			release(s, inner)
			if !lostFirst {
				c.holds(1)
				if _, err := c.TryLock(s.Ctx); !errors.Is(err, zklocks.ErrLost) {
					s.Fatalf("before its last hold is released: %v", err)
				}
				_, err := c.Lock(s.Ctx)
				s.Is(err, zklocks.ErrLost)
				s.Is(lost.Release(s.Ctx), zklocks.ErrLost)
			}
			c.holds(0)
			c.busy(s.Ctx)
			release(s, other)
			release(s, c.lock(s.Ctx))
			c.holds(0)
		}
	})
}

// Another goroutine of the process, without the context of the owner, is not the owner: its Lock
// waits with a node of its own, and its TryLock returns ErrBusy.
func TestAnotherGoroutineOfTheValueWaits(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		mu := reentrant.New(locks.On(s.Connect()), s.Path)
		h, err := mu.Lock(s.Ctx)
		s.Must(err)
		s.Is(contract.Begin(s, s.Ctx, mu.TryLock).Failed(), zklocks.ErrBusy)
		a := contract.Begin(s, s.Ctx, mu.Lock)
		s.InLine(2)
		a.Waits()
		again, err := mu.Lock(s.Ctx) // the owner re-enters at once, although a waiter is queued
		s.Must(err)
		if again.Token() != h.Token() {
			s.Errorf("the owner has entered with token %d, not %d", again.Token(), h.Token())
		}
		s.Must(again.Release(s.Ctx))
		a.Waits()
		s.Must(h.Release(s.Ctx))
		s.Must(a.Granted().Release(s.Ctx))
	})
}

func TestAReentryIsGrantedAndNotQueued(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		events := contract.NewEvents(s)
		mu := reentrant.New(locks.On(s.Connect()), s.Path, zklocks.WithObserver(events.Observer()))
		outer, err := mu.Lock(s.Ctx)
		s.Must(err)
		inner, err := mu.Lock(s.Ctx)
		s.Must(err)
		first, second := contract.Of[observe.Granted](events)[0], contract.Next[observe.Granted](events, 2)
		if first.Joined || !second.Joined || first.LockInfo != second.LockInfo {
			s.Errorf("%+v, %+v", first, second)
		}
		s.Must(inner.Release(s.Ctx))
		contract.Next[observe.Released](events, 1)
		s.Must(s.Witness.Client().Delete(contract.NodeOf(outer), -1))
		s.Is(outer.Release(s.Ctx), zklocks.ErrLost)
		contract.Next[observe.Lost](events, 1)
		events.Balanced()
	})
}

// onContextOwner runs a test with a Mutex with WithContextOwner, and another process's Conn.
func onContextOwner(t *testing.T, f func(t *testing.T, mu *reentrant.Mutex, other *zklocks.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		f(t, reentrant.New(s.Host("a").Connect(t, 10*time.Second), "/owner", reentrant.WithContextOwner()), s.Host("b").Connect(t, 10*time.Second))
	})
}

func TestOnlyTheContextOwns(t *testing.T) {
	onContextOwner(t, func(t *testing.T, mu *reentrant.Mutex, other *zklocks.Conn) {
		take := func(name string, lock func(context.Context) (*zklocks.Hold, error), ctx context.Context, want error) *zklocks.Hold {
			t.Helper()
			hold, err := lock(ctx)
			if !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", name, err, want)
			}
			return hold
		}
		outer := take("the first", mu.Lock, t.Context(), nil)
		ctx := outer.Context(t.Context())
		take("the goroutine", mu.TryLock, t.Context(), zklocks.ErrBusy)
		take("the goroutine, of several locks", zklocks.All(mu).TryLock, t.Context(), zklocks.ErrBusy)
		inner := take("the context", mu.TryLock, ctx, nil)
		var deeper *zklocks.Hold
		elsewhere(func() { deeper = take("the context in another goroutine", mu.Lock, inner.Context(ctx), nil) })
		if _, err := zklocks.All(mu).Lock(ctx); err == nil || errors.Is(err, zklocks.ErrBusy) {
			t.Errorf("the context, of several locks: %v, want that the caller holds it", err)
		}
		if n := mu.HoldCount(); n != 0 {
			t.Errorf("the goroutine has %d holds", n)
		}
		there := reentrant.New(other, "/owner")
		for _, hold := range []*zklocks.Hold{outer, deeper, inner} {
			take("another process", there.TryLock, t.Context(), zklocks.ErrBusy)
			if err := hold.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		hold := take("another process at the end", there.TryLock, t.Context(), nil)
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The context of a hold on several locks owns, too.
func TestTheContextOfSeveralLocksOwns(t *testing.T) {
	onContextOwner(t, func(t *testing.T, mu *reentrant.Mutex, _ *zklocks.Conn) {
		err := zklocks.Do(t.Context(), zklocks.All(mu).Lock, func(ctx context.Context, _ *zklocks.Hold) error {
			if _, err := mu.TryLock(t.Context()); !errors.Is(err, zklocks.ErrBusy) {
				t.Errorf("the goroutine: %v", err)
			}
			return zklocks.Do(ctx, mu.TryLock, func(context.Context, *zklocks.Hold) error { return nil })
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// After a loss a call with the hold's context fails until the hold is released. The goroutine may
// queue at once with another context.
func TestALostHoldOfAContext(t *testing.T) {
	onContextOwner(t, func(t *testing.T, mu *reentrant.Mutex, other *zklocks.Conn) {
		lost, err := mu.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx := lost.Context(t.Context())
		queue, err := mu.Queue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Client().Delete(queue[0].Path, -1); err != nil {
			t.Fatal(err)
		}
		<-lost.Lost()
		if _, err := mu.TryLock(context.WithoutCancel(ctx)); !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("the context of the lost hold: %v", err)
		}
		if err := zklocks.Do(t.Context(), mu.Lock, func(context.Context, *zklocks.Hold) error { return nil }); err != nil {
			t.Errorf("the goroutine: %v", err)
		}
		if err := lost.Release(t.Context()); !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("release: %v", err)
		}
	})
}
