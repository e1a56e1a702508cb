package queue

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// A grant may be lost before its call returns. Observers are notified of both, in this order.
func TestAGrantThatIsLostBeforeItsCallReturns(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		events := make(chan string, 20)
		cfg := Default()
		cfg.Observers = []observe.Observer{{
			Called:  func(observe.Called) { events <- "called" },
			Failed:  func(observe.Failed) { events <- "failed" },
			Granted: func(observe.Granted) { events <- "granted" },
			Lost:    func(observe.Lost) { events <- "lost" },
		}}
		l := newQueue(t, x.conn, x.queue.dir, with(cfg, lockNames))
		r := Request{Kind: znode.Lock, Nodes: 1}
		call := l.Call(t.Context(), r)
		grant, err := l.Acquire(t.Context(), r, true)
		if err != nil {
			t.Fatal(err)
		}
		grant.state.Lose(errors.New("test"))
		new(Hold).Begin(grant, l, nil, call)
		seen := []string{<-events, <-events, <-events}
		if want := []string{"called", "granted", "lost"}; !slices.Equal(seen, want) {
			t.Errorf("notified of %q, want %q", seen, want)
		}
		test.AssertEmpty(t, x.witness, x.queue.dir)
		if len(events) > 0 {
			t.Errorf("and of %s", <-events)
		}
	})
}
