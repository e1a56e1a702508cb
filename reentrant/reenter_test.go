package reentrant_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/internal/zktest/contract"
	"github.com/zklocks/zklocks/reentrant"
)

const soon = 20 * time.Second // longer than any step

// client is a mutex value on a connection of its own.
type client struct {
	*contract.Stage
	*reentrant.Mutex
	conn  *zk.Conn
	proxy *zktest.Proxy
}

func newStage(t *testing.T) *contract.Stage {
	t.Helper()
	t.Parallel()
	return contract.NewStage(t, "")
}

func newClient(s *contract.Stage) *client {
	s.Helper()
	conn, p := s.Behind()
	return &client{s, reentrant.New(conn, s.Path), conn, p}
}

// lock takes the lock on the test's own goroutine.
func (c *client) lock(ctx context.Context) *reentrant.Hold {
	c.Helper()
	h, err := c.Lock(ctx)
	c.Must(err)
	return h
}

func (c *client) holds(want int) {
	c.Helper()
	if n := c.Holds(); n != want {
		c.Errorf("%d holds, want %d", n, want)
	}
}

func (c *client) busy(ctx context.Context) {
	c.Helper()
	_, err := c.TryLock(ctx)
	c.Is(err, reentrant.ErrBusy)
}

// elsewhere runs f on another goroutine and waits for it.
func elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func unlock(s *contract.Stage, h *reentrant.Hold) { s.Helper(); s.Must(h.Unlock(s.Ctx)) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheLockIsHeldUntilTheLastOfItsHoldsIsUnlocked(t *testing.T) {
	for name, order := range map[string][3]int{
		"inner first": {2, 1, 0}, "outer first": {0, 1, 2}, "mixed": {1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c, other := newClient(s), newClient(s)
			var holds [3]*reentrant.Hold
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
					if h := holds[later]; !h.Held() || closed(h.Lost()) || ctxs[later].Err() != nil {
						t.Errorf("hold %d has ended with another", later)
					}
					s.Must(holds[later].Verify(s.Ctx))
				}
				h := holds[which]
				unlock(s, h)
				if h.Held() || closed(h.Lost()) || ctxs[which].Err() == nil {
					t.Errorf("hold %d goes on after its unlock", which)
				}
				s.Is(context.Cause(ctxs[which]), reentrant.ErrReleased)
				s.Is(h.Unlock(s.Ctx), reentrant.ErrReleased) // and takes nothing from the others
				s.Is(h.Verify(s.Ctx), reentrant.ErrReleased)
			}
			s.EmptyNow()
			c.holds(0)
			for _, h := range holds {
				s.Is(h.Unlock(s.Ctx), reentrant.ErrReleased)
			}
			unlock(s, c.lock(s.Ctx)) // counts did not become negative
			c.holds(0)
			s.Empty()
		})
	}
}

func TestCodeThatCallsItselfReenters(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	var walk func(ctx context.Context, depth int)
	walk = func(ctx context.Context, depth int) {
		h := c.lock(ctx)
		defer unlock(s, h)
		if depth > 0 {
			walk(h.Context(ctx), depth-1)
			walk(ctx, depth-1)
		}
	}
	walk(s.Ctx, 6)
	c.holds(0)
	s.EmptyNow()
}

func TestReentryAsksNobody(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	h := c.lock(s.Ctx)
	ctx := h.Context(s.Ctx) // sets the watch
	s.CatchUp(c.conn)
	before := c.proxy.Seen(zktest.AnyOp) - c.proxy.Seen(zktest.CheckOp) // but for the heartbeat
	for range 100 {
		unlock(s, c.lock(s.Ctx))
		inner, err := c.TryLock(ctx)
		s.Must(err)
		unlock(s, inner)
	}
	if n := c.proxy.Seen(zktest.AnyOp) - c.proxy.Seen(zktest.CheckOp) - before; n != 0 {
		t.Errorf("%d requests", n)
	}
	unlock(s, h)
	s.Empty()
}

func TestOtherGoroutinesReenterByTheContext(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	h := c.lock(s.Ctx)
	ctx, cancel := context.WithTimeout(h.Context(s.Ctx), soon)
	defer cancel()
	elsewhere(func() {
		c.busy(s.Ctx) // without it, it is another owner
		c.holds(0)
		inner, err := c.Lock(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if inner.Token() != h.Token() {
			t.Errorf("token %d in a hold on %d", inner.Token(), h.Token())
		}
		c.holds(1)
		deeper, err := c.Lock(s.Ctx) // it owns the lock now
		if err != nil {
			t.Error(err)
			return
		}
		c.holds(2)
		s.Is(deeper.Unlock(s.Ctx), nil)
		s.Is(inner.Unlock(s.Ctx), nil)
		c.holds(0)
		c.busy(s.Ctx)
	})
	c.holds(1)
	s.InLine(1)
	unlock(s, h)
	s.EmptyNow()

	// With the hold its context has ended.
	_, err := c.Lock(ctx)
	s.Is(err, reentrant.ErrReleased)
	s.EmptyNow()
}

// A goroutine that was handed the lock may keep it longer than the one that took it.
func TestTheLockGoesWithItsLastHoldWhoeverHasIt(t *testing.T) {
	s := newStage(t)
	c, other := newClient(s), newClient(s)
	h := c.lock(s.Ctx)
	var inner *reentrant.Hold
	elsewhere(func() { inner, _ = c.Lock(h.Context(s.Ctx)) })
	unlock(s, h)
	c.holds(0)
	c.busy(s.Ctx) // this goroutine has nothing left
	other.busy(s.Ctx)
	if !inner.Held() {
		t.Error("the other goroutine's hold ended with this one's")
	}
	s.Must(inner.Verify(s.Ctx))
	unlock(s, inner)
	unlock(s, other.lock(s.Ctx))
	s.Empty()
}

func TestAnotherGoroutineMayUnlock(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	a, b := c.lock(s.Ctx), c.lock(s.Ctx)
	elsewhere(func() { s.Is(a.Unlock(s.Ctx), nil) })
	c.holds(1)
	s.InLine(1)
	elsewhere(func() { s.Is(b.Unlock(s.Ctx), nil) })
	c.holds(0)
	s.EmptyNow()
	unlock(s, c.lock(s.Ctx))
	s.Empty()
}

func TestGoroutinesOfOneValueExcludeEachOther(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	var inside atomic.Int32
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 5 {
				outer, err := c.Lock(s.Ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d goroutines inside", n)
				}
				inner, err := c.Lock(outer.Context(s.Ctx))
				if err != nil {
					t.Error(err)
					return
				}
				s.Is(inner.Verify(s.Ctx), nil) // long enough for another to come in
				s.Is(inner.Unlock(s.Ctx), nil)
				inside.Add(-1)
				s.Is(outer.Unlock(s.Ctx), nil)
			}
		})
	}
	all.Wait()
	s.Empty()
}

// The context of a hold that has ended names no owner, if somebody keeps it alive.
func TestTheContextOfAnEndedHoldIsNobodys(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	h := c.lock(s.Ctx)
	kept := context.WithoutCancel(h.Context(s.Ctx))
	unlock(s, h)
	again := c.lock(kept)
	if again.Token() <= h.Token() {
		t.Error("the hold that had ended was entered")
	}
	inner := c.lock(kept) // its goroutine is the owner
	c.holds(2)
	unlock(s, inner)
	unlock(s, again)
	s.Empty()
}

func TestAnotherValueIsAnotherOwner(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	other := &client{s, reentrant.New(c.conn, s.Path), c.conn, c.proxy}
	h := c.lock(s.Ctx)
	other.busy(s.Ctx)
	other.busy(h.Context(s.Ctx))
	other.holds(0)
	unlock(s, h)
	s.Empty()
}

func TestReentryIntoALostLockIsRefused(t *testing.T) {
	for name, lose := range map[string]func(*client){
		"deleted": func(c *client) {
			c.Must(c.Witness.Delete(c.Dir+"/"+zktest.Children(c, c.Witness, c.Dir)[0], -1))
		},
		"expired": func(c *client) { zktest.Expire(c, c.conn) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c := newClient(s)
			outer, inner := c.lock(s.Ctx), c.lock(s.Ctx)
			ctx := outer.Context(context.WithoutCancel(s.Ctx))
			lost := inner.Lost()
			lose(c)
			s.Lost(lost)
			s.Lost(outer.Lost())
			if outer.Held() || inner.Held() {
				t.Error("held and lost")
			}
			for _, ctx := range []context.Context{s.Ctx, ctx} {
				_, err := c.Lock(ctx)
				s.Is(err, reentrant.ErrLost)
				_, err = c.TryLock(ctx)
				s.Is(err, reentrant.ErrLost)
			}
			c.holds(2)
			s.Is(inner.Unlock(s.Ctx), reentrant.ErrLost)
			s.Is(inner.Unlock(s.Ctx), reentrant.ErrReleased)
			_, err := c.Lock(s.Ctx)
			s.Is(err, reentrant.ErrLost) // there is one hold still
			s.Is(outer.Unlock(s.Ctx), reentrant.ErrLost)
			c.holds(0)
			h := c.lock(s.Ctx)
			s.Must(h.Verify(s.Ctx))
			if h.Token() <= outer.Token() {
				t.Errorf("token %d after %d", h.Token(), outer.Token())
			}
			unlock(s, h)
			s.Empty()
		})
	}
}

func TestAContextThatIsDoneDoesNotReenter(t *testing.T) {
	s := newStage(t)
	c := newClient(s)
	h := c.lock(s.Ctx)
	dead, cancel := context.WithCancel(s.Ctx)
	cancel()
	_, err := c.Lock(dead)
	s.Is(err, context.Canceled)
	_, err = c.TryLock(dead)
	s.Is(err, context.Canceled)
	c.holds(1)
	unlock(s, h)
	s.Empty()
}
