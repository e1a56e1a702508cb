package queue

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// said is a logger.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.text, format+"\n", args...)
}

// A grant that rests on a broken invariant ends as lost. The error and the log say why, and the
// node is deleted, so the next waiter is granted the lock.
func TestABugEndsTheHoldAsLost(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		log := new(said)
		conn, err := wire.Connect(t.Context(), v.Servers(t), 10*time.Second, append(v.Dialer(), wire.WithLogger(log))...)
		x.must(nil, err)
		defer conn.Close()
		x.conn, x.queue = conn, newQueue(t, conn, x.queue.dir, with(Default(), lockNames))
		for name, broken := range map[string]func(*waiter){
			"1": func(w *waiter) { w.bug.unless(len(w.own) == len(w.nodes), 1) },
			"8": func(w *waiter) { w.limit.AllowedAhead = -1 },
		} {
			w := x.enter()
			broken(w)
			g := newGrant(waiters{w})
			if err := g.Err(); !errors.Is(err, hold.ErrLost) || !strings.Contains(err.Error(), "a bug of zklocks") || !strings.Contains(err.Error(), "invariant "+name) {
				t.Errorf("%s: %v", name, err)
			}
			log.mu.Lock()
			if !strings.Contains(log.text.String(), "invariant "+name) {
				t.Errorf("%s: the log says %q", name, log.text.String())
			}
			log.mu.Unlock()
		}
		g := newGrant(waiters{x.enter()})
		if err := g.Err(); g.must(false, 7) || err != nil || !errors.Is(g.Err(), hold.ErrLost) {
			t.Errorf("%v, %v", err, g.Err())
		}
		test.AssertEmpty(t, x.witness.Client(), x.queue.dir)
	})
}
