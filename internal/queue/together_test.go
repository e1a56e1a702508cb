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

// One of several grants is lost while all their nodes live. The holders of all are told before the
// first of these is deleted.
func TestHoldersOfSeveralAreToldBeforeANodeIsDeleted(t *testing.T) {
	t.Parallel()
	for lost := range 2 {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			server := v.Servers(t)[0]
			conn, witness := v.Connect(t, 10*time.Second, server), v.Connect(t, 10*time.Second, server)
			var parts []Part
			for _, end := range []string{"-a", "-b"} {
				q := newQueue(t, conn, test.Path(t)+end, with(Default(), lockNames))
				parts = append(parts, Part{Queue: q, Request: Request{Kind: znode.Lock, Nodes: 1}})
			}
			j, err := Together(t.Context(), parts, "lock", true)
			if err != nil {
				t.Fatal(err)
			}
			told := 0
			j.State().OnEnd(hold.Holders, func(error) {
				told++
				time.Sleep(time.Second) // virtual: a deletion that has begun reaches the server
				for _, p := range parts {
					if n := len(test.Children(t, witness, p.Queue.dir)); n != 1 {
						t.Errorf("%d nodes in %s while the holders are told", n, p.Queue.dir)
					}
				}
			})
			j.grants[lost].state.Lose(errors.New("test"))
			if told != 1 || !errors.Is(j.Err(), hold.ErrLost) {
				t.Errorf("told %d times: %v", told, j.Err())
			}
			for _, p := range parts {
				test.AssertEmpty(t, witness, p.Queue.dir)
			}
		})
	}
}
