package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Two readers find that the listing has set no watch, and each wants to set it; a writer has come
// in between, so the first of them drops the view. The second loads the view twice.
func TestTwoReadersEnsureTheWatch(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := shared(t, v)
		m := x.shares()
		epoch := x.queue.client.Epoch()
		line, dir, err := x.queue.list(x.Context(), m.sess)
		x.must(nil, err)
		x.must(x.witness.Set(x.queue.dir, nil, -1)) // a writer comes, and leaves
		x.queue.watchWriters(x.Context(), m.sess)   // so that EnsureWatch does not wait for a reply
		x.queue.view.listed(m, line, dir, nil, epoch)
		var stop atomic.Bool
		var other sync.WaitGroup
		other.Go(func() { // another reader lists, and finds that a writer has come
			for !stop.Load() {
				x.queue.view.listed(m, line, dir, nil, epoch)
				m.request.Sharing.EnsureWatch(context.Background())
			}
		})
		defer other.Wait()
		defer stop.Store(true)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v", p)
			}
		}()
		for range 3_000 {
			m.request.Sharing.EnsureWatch(context.Background())
		}
	})
}

// The document of observe.Left says that Cause tells the end of the session from the deletion of
// the node.
func TestLeftTellsThatTheSessionHasExpired(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 5*time.Second)
		left, queued := make(chan error, 9), make(chan struct{}, 9)
		cfg := with(Default(), lockNames)
		cfg.Observers = []observe.Observer{{
			Queued: func(observe.Queued) { queued <- struct{}{} },
			Left:   func(e observe.Left) { left <- e.Cause },
		}}
		q, err := New(x.conn, x.queue.dir, cfg)
		x.must(nil, err)
		x.other(znode.Lock) // the holder
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); _, _ = q.Wait(ctx, Request{Kind: x.kind, Nodes: 1}) }()
		<-queued
		x.venue.Expire(x, x.conn)
		select {
		case cause := <-left:
			if !errors.Is(cause, zkclient.ErrOver) {
				t.Errorf("cause %q", cause)
			}
		case <-ctx.Done():
			t.Error("no Left")
		}
		cancel()
		<-done
	})
}
