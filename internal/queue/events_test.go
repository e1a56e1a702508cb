package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// A place may be lost before its caller is told that it was granted. The wait ends
// once, and so does the hold.
func TestAWaitEndsOnceForTheObservers(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		conn := v.Connect(t, 10*time.Second, v.Servers(t)[0])
		path := test.Path(t)
		events := make(chan string, 20)
		cfg := Default()
		cfg.Observers = []observe.Observer{{
			Queued: func(observe.Queued) { events <- "queued" },
			Left:   func(observe.Left) { events <- "left" },
			Lost:   func(observe.Lost) { events <- "lost" },
			Granted: func(e observe.Granted) {
				if e.Queued {
					t.Error("a grant ends a wait that has ended")
				}
				events <- "granted"
			},
		}}
		l := newQueue(t, conn, path, with(cfg, lockNames))
		e := Request{Kind: znode.Lock, Nodes: 1}
		first, err := l.Acquire(t.Context(), e, true)
		if err != nil {
			t.Fatal(err)
		}
		call := l.NewEvents()
		granted := make(chan *Grant)
		go func() {
			p, _ := l.Acquire(t.Context(), e, true)
			granted <- p
		}()
		seen := []string{<-events}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := <-granted
		second.state.Lose(errors.New("test"))
		seen = append(seen, <-events)
		call.Granted(second)
		seen = append(seen, <-events, <-events)
		slices.Sort(seen)
		if want := []string{"granted", "left", "lost", "queued"}; !slices.Equal(seen, want) {
			t.Errorf("told %q, want %q", seen, want)
		}
		test.AssertEmpty(t, conn, path)
		if len(events) > 0 {
			t.Errorf("and %s", <-events)
		}
	})
}

// The document of observe.Left says that Cause tells the end of the session from the deletion of
// the node.
func TestLeftTellsThatTheSessionHasExpired(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 5*time.Second)
		left, queued := make(chan error, 9), make(chan struct{}, 9)
		cfg := with(Default(), lockNames)
		cfg.Observers = []observe.Observer{{
			Queued: func(observe.Queued) { queued <- struct{}{} },
			Left:   func(e observe.Left) { left <- e.Cause },
		}}
		q := newQueue(x.T, x.conn, x.queue.dir, cfg)
		x.other(znode.Lock) // the holder
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); _, _ = q.Acquire(ctx, Request{Kind: x.kind, Nodes: 1}, true) }()
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
