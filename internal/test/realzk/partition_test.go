package realzk

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
)

// A member of 3.4 sends its id and then notifications, which must not be changed.
func TestGreetingKeepsTheIDAndNamesTheProxy(t *testing.T) {
	version, id := binary.BigEndian.AppendUint64(nil, 0xffffffffffff0000), binary.BigEndian.AppendUint64(nil, 3)
	greeting := func(addr string) string {
		return string(version) + string(id) + string(binary.BigEndian.AppendUint32(nil, uint32(len(addr)))) + addr
	}
	const next = "a notification"
	for name, g := range map[string]struct{ sent, want string }{
		"3.5": {greeting("127.0.0.1:3888"), greeting("127.0.0.1:17731")},
		"3.4": {string(id), string(id)},
	} {
		from := strings.NewReader(g.sent + next)
		got, err := readdress(from, "127.0.0.1:17731")
		must(t, err)
		if string(got) != g.want || from.Len() != len(next) {
			t.Errorf("ZooKeeper %s: %q with %d bytes behind it, want %q with %d", name, got, from.Len(), g.want, len(next))
		}
	}
}

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
		_, err := conn.Create("/a", nil, 0, acl)
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
