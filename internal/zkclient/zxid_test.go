package zkclient

import (
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// The header of the reply to a create has the node's czxid, on the leader and on its followers,
// while other clients write.
func TestTheHeaderOfAReplyHasTheZxid(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		// The timeouts are long, so that servers and clients on a busy machine do not lose each
		// other.
		const patience = 20 * time.Second
		members := v.Cluster(t, 3, venue.Options{SyncLimit: patience}).Addrs()
		witness := v.Connect(t, 3*patience, members...)
		var all, noise sync.WaitGroup
		enough := make(chan struct{})
		// Connect all first: connecting takes time, and in a bubble no time passes while a
		// goroutine below runs without blocking.
		conns, dirs := make([]*wire.Conn, len(members)), make([]string, len(members))
		for i, member := range members {
			conns[i], dirs[i] = v.Connect(t, 3*patience, member), test.Path(t)+string(rune('a'+i))
			_, err := witness.Create(dirs[i], nil, zk.FlagPersistent, open)
			must(t, err)
		}
		for i, conn := range conns {
			c, dir := Of(conn), dirs[i]
			noise.Go(func() {
				for {
					select {
					case <-enough:
						return
					default:
					}
					if _, err := conn.Set(dir, nil, -1); err != nil {
						t.Error(err)
						return
					}
				}
			})
			for range 4 {
				all.Go(func() {
					for range 25 {
						made, err := claimOne(t.Context(), c, conn.SessionID(), Claim{Dir: dir, Kind: znode.Read, Nodes: 1, ACL: open})
						if err != nil {
							t.Error(err)
							return
						}
						_, stat, err := conn.Exists(dir + "/" + made.Nodes[0].Name)
						if err != nil || stat.Czxid != made.Zxid {
							t.Errorf("czxid %+v, header %d, %v", stat, made.Zxid, err)
						}
						<-c.Remove(conn.SessionID(), Removal{Dir: dir, Nodes: made.Nodes})
					}
				})
			}
		}
		all.Wait()
		close(enough)
		noise.Wait()
	})
}

func TestHeadersAreTrustedOnceSeenRightAndNeverOnceSeenWrong(t *testing.T) {
	c := &Client{connection: new(connection)}
	for i, step := range []struct {
		header, czxid int64
		trusts        bool
	}{
		{0, 7, false}, // nothing known
		{7, 7, true},
		{8, 8, true},
		{9, 8, false},
		{10, 10, false},
	} {
		c.VerifyHeaderZxid(step.header, step.czxid)
		if c.HeaderZxidVerified() != step.trusts {
			t.Errorf("step %d: trusts %v", i, c.HeaderZxidVerified())
		}
	}
}
