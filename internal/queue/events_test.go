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
		l, err := New(conn, path, with(cfg, lockNames))
		if err != nil {
			t.Fatal(err)
		}
		e := Request{Kind: znode.Lock, Nodes: 1}
		first, err := l.Wait(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		call := l.NewEvents()
		granted := make(chan *Grant)
		go func() {
			p, _ := l.Wait(t.Context(), e)
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
