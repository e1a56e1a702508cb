package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// A grant of several locks is lost while all its nodes exist. Its holder is notified before the
// first node is deleted.
func TestHoldersOfSeveralAreToldBeforeANodeIsDeleted(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Servers(t)[0]
		conn, witness := v.Connect(t, 10*time.Second, server), v.Connect(t, 10*time.Second, server)
		var parts []Part
		for _, end := range []string{"-a", "-b"} {
			q := newQueue(t, conn, test.Path(t)+end, with(Default(), lockNames))
			parts = append(parts, Part{Queue: q, Request: Request{Kind: znode.Lock, Nodes: 1}})
		}
		var h Hold
		if err := h.Together(t.Context(), parts, "lock", true); err != nil {
			t.Fatal(err)
		}
		told := 0
		h.State().OnEnd(func(error) {
			told++
			time.Sleep(time.Second) // virtual: a deletion that has begun reaches the server
			for _, p := range parts {
				if n := len(test.Children(t, witness, p.Queue.dir)); n != 1 {
					t.Errorf("%d nodes in %s while the holders are told", n, p.Queue.dir)
				}
			}
		})
		h.Grant.state.Lose(errors.New("test"))
		if told != 1 || !errors.Is(h.Err(), hold.ErrLost) {
			t.Errorf("told %d times: %v", told, h.Err())
		}
		for _, p := range parts {
			test.AssertEmpty(t, witness, p.Queue.dir)
		}
	})
}
