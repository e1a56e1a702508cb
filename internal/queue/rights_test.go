package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// A client may not read its own node, so the server withholds that node's event. A watch on it that
// has not fired is no evidence that the node exists, so the waiter does not begin to wait.
func TestNoGrantByANodeThatTheClientMayNotRead(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 20*time.Second)
		cfg := with(Default(), rwNames)
		cfg.ACL = zk.WorldACL(zk.PermDelete)
		q, err := New(x.conn, x.queue.dir, cfg)
		x.must(nil, err)
		x.other(znode.Write) // the holder
		began := time.Now()
		_, err = q.Wait(t.Context(), Request{Kind: znode.Write, Nodes: 1})
		if !errors.Is(err, zk.ErrNoAuth) || time.Since(began) >= aclCheckDelay {
			t.Errorf("after %v: %v, want %v at once", time.Since(began), err, zk.ErrNoAuth)
		}
		if n := len(test.Children(t, x.witness, x.queue.dir)); n != 1 {
			t.Errorf("%d nodes are left, want the holder's", n)
		}
	})
}
