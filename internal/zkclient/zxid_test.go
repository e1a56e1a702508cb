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
		dir := test.Path(t)
		_, err := v.Connect(t, 3*patience, members...).Client().Create(dir, nil, zk.FlagPersistent, open)
		must(t, err)
		// Connect all first: connecting takes time, and in a bubble no time passes while a
		// goroutine below runs without blocking.
		var conns []*wire.Conn
		for _, member := range members {
			conns = append(conns, v.Connect(t, 3*patience, member))
		}
		var all sync.WaitGroup
		for _, conn := range conns {
			for range 4 {
				all.Go(func() {
					c := Of(conn)
					for range 25 {
						made, err := claimOne(t.Context(), c, conn.Session(), Claim{Dir: dir, Kind: znode.Read, Nodes: 1, ACL: open})
						if err != nil {
							t.Error(err)
							return
						}
						_, stat, err := conn.Client().Exists(dir + "/" + made.Nodes[0].Name)
						if err != nil || stat.Czxid != made.Zxid {
							t.Errorf("czxid %+v, header %d, %v", stat, made.Zxid, err)
						}
						<-c.Remove(conn.Session(), Removal{Dir: dir, Nodes: made.Nodes})
					}
				})
			}
		}
		all.Wait()
	})
}
