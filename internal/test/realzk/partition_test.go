package realzk

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
)

func TestIsolatedLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	e := Cluster(t, 3, Options{Partitions: true})
	old, err := e.Leader()
	must(t, err)
	must(t, e.Isolate(old))
	test.Eventually(t, 30*time.Second, "another leads", func() bool {
		leaders := e.inState("leader")
		return len(leaders) == 1 && leaders[0] != old
	})
	if _, err := old.Mntr(); err == nil {
		t.Error("the isolated member still serves")
	}
	next, err := e.Leader()
	must(t, err)
	conn := Connect(t, 20*time.Second, next.Addr())
	test.Eventually(t, 20*time.Second, "a write", func() bool {
		_, err := conn.Client().Create("/a", nil, 0, acl)
		return err == nil || err == zk.ErrNodeExists
	})
	e.Heal()
	test.Eventually(t, 30*time.Second, "the old leader follows", func() bool {
		for _, s := range e.inState("follower") {
			if s == old {
				return true
			}
		}
		return false
	})
}
