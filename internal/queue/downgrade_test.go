package queue

import (
	"errors"
	"testing"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// lostBehind loses a grant right after the check with which a downgrade begins.
type lostBehind struct{ *Grant }

func (g lostBehind) Alive() error {
	g.state.Grant = g.Grant
	g.state.Lose(errors.New("test"))
	return nil
}

// The end of a hold deletes its node. A downgrade that creates another node after that leaves an
// orphan.
func TestAHoldThatEndsBeforeItsDowngradeIsNotDowngraded(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := shared(t, v)
		h := lock(t, x.queue, znode.Write)
		h.Grant.state.Grant = lostBehind{h.Grant}
		if err := h.Downgrade(t.Context(), x.queue, znode.Write, znode.Read); !errors.Is(err, hold.ErrLost) {
			t.Errorf("downgraded what was lost: %v", err)
		}
		if n := x.proxy.Seen(proxy.MoveOp); n != 0 {
			t.Errorf("%d downgrades were sent", n)
		}
		test.AssertEmpty(t, x.witness, x.queue.dir)
	})
}
