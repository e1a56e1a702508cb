package queue

import (
	"errors"
	"testing"
	"time"

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
		server := v.Standalone(t, venue.Options{})
		p := v.Proxy(t, server.Addr())
		conn := v.Connect(t, 10*time.Second, p.Addr())
		path := test.Path(t)
		l := newQueue(t, conn, path, with(Default(), rwNames))
		h := lock(t, l, znode.Write)
		h.Grant.state.Grant = lostBehind{h.Grant}
		if err := h.Downgrade(t.Context(), l, znode.Write, znode.Read); !errors.Is(err, hold.ErrLost) {
			t.Errorf("downgraded what was lost: %v", err)
		}
		if n := p.Seen(proxy.MoveOp); n != 0 {
			t.Errorf("%d downgrades were sent", n)
		}
		witness := v.Connect(t, 10*time.Second, server.Addr())
		test.AssertEmpty(t, witness, path)
	})
}
