package rwlock_test

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/rwlock"
)

// requests returns the number of the client's requests, without pings and heartbeats.
func requests(c *client) int64 { return c.proxy.Seen(proxy.AnyOp) - c.proxy.Seen(proxy.CheckOp) }

// with returns another value for the same lock on the same connection.
func (c *client) with(opts ...rwlock.Option) *client {
	return &client{c.Stage, rwlock.New(locks.On(c.conn), c.Path, opts...), c.conn, c.proxy}
}

func TestASharedReadCostsNoRequest(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s)
		first := c.read()
		before := requests(c)
		for range 100 {
			h, err := c.RLock(s.Ctx)
			s.Must(err)
			if h.Token() != first.Token() || !h.Held() {
				s.Fatal("not the same read lock")
			}
			try, err := c.TryRLock(s.Ctx)
			s.Must(err)
			release(s, h)
			s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
			s.Is(h.Verify(s.Ctx), zklocks.ErrReleased)
			s.Is(h.Err(), zklocks.ErrReleased)
			_, err = h.Multi(s.Ctx) // although the node still exists
			s.Is(err, zklocks.ErrReleased)
			if !h.ValidUntil().IsZero() || try.ValidUntil().IsZero() {
				s.Errorf("deadlines: %v of the one that has ended, %v of the other", h.ValidUntil(), try.ValidUntil())
			}
			release(s, try)
		}
		if n := requests(c) - before; n > 2 { // the second reader may watch the directory for writers, and the node
			s.Errorf("%d requests for 200 shared reads", n)
		}
		s.Must(first.Verify(s.Ctx))
		release(s, first)
	})
}

// Readers that come after the read that found the node gone, and before the next create, share the
// new node.
func TestReadersComeWhileTheWaitersNodeIsMadeAgain(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := behind(s), s.Connect()
		release(s, direct(s).read()) // the directory exists now, and c has not listed it without writers
		made := c.proxy.Next(proxy.CreateOp, proxy.HoldReply)
		first := contract.Begin(s, s.Ctx, c.RLock)
		<-made.Fired()
		for _, name := range test.Children(s, other.Client(), s.Path) {
			s.Must(other.Client().Delete(s.Path+"/"+name, -1))
		}
		again := c.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
		made.Release()
		<-again.Fired()
		second := contract.Begin(s, s.Ctx, c.RLock)
		second.Waits()
		again.Release()
		h := first.Granted()
		if h.Token() != second.Granted().Token() {
			s.Error("they do not share a node")
		}
		release(s, h)
		release(s, second.Granted())
	})
}

// Successive readers may hold the node for a long time: no memory is kept of readers that have
// left.
func TestASharedReadThatHasEndedIsForgotten(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := direct(s)
		stays := c.read()
		gone := func() weak.Pointer[zklocks.Hold] {
			h, err := c.RLock(s.Ctx)
			s.Must(err)
			if h.Context(s.Ctx).Err() != nil || !h.Held() {
				s.Error("not held")
			}
			release(s, h)
			return weak.Make(h)
		}()
		test.Eventually(s, soon, "it is forgotten", func() bool {
			runtime.GC()
			return gone.Value() == nil
		})
		if !stays.Held() {
			s.Error("lost")
		}
		release(s, stays)
	})
}

func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
