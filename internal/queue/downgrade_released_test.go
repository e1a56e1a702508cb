package queue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// A Release has ended the hold while its Downgrade is under way. If the node is missing then, that
// is not a loss, and Downgrade returns the release instead of the server's error.
func TestADowngradeOfAReleasedGrantSaysReleased(t *testing.T) {
	for name, strike := range map[string]func(*testing.T, venue.Venue, *wire.Conn, string){
		"its session has expired": func(t *testing.T, v venue.Venue, conn *wire.Conn, _ string) { v.Expire(t, conn) },
		"its node is deleted": func(t *testing.T, v venue.Venue, _ *wire.Conn, node string) {
			if err := v.Connect(t, 10*time.Second).Delete(node, -1); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				p := v.Proxy(t, v.Servers(t)[0])
				conn := v.Connect(t, 10*time.Second, p.Addr())
				l := newQueue(t, conn, test.Path(t), with(Default(), rwNames))
				h := lock(t, l, znode.Write)
				move := p.Next(proxy.MoveOp, proxy.HoldRequest)
				downgraded, unlocked := make(chan error, 1), make(chan error, 1)
				go func() { downgraded <- h.Downgrade(t.Context(), l, znode.Write, znode.Read) }()
				<-move.Fired()
				go func() { unlocked <- h.Release(t.Context()) }()
				synctest.Wait() // Release has ended the hold, and waits for the downgrade
				strike(t, v, conn, h.Guard()[0].Path)
				move.Release()
				if err := <-downgraded; !errors.Is(err, hold.ErrReleased) {
					t.Errorf("downgrade: %v, want one that matches %q", err, hold.ErrReleased)
				}
				<-unlocked // it may have found the node gone
			})
		})
	}
}
