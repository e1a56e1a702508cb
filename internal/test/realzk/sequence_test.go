package realzk

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
)

func TestSetSequencesIsTheNumberOfTheNextChild(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	dir := test.Path(t)
	with := func(do func(*zk.Conn)) {
		conn, _, err := zk.Connect([]string{s.Addr()}, 4*time.Second, zk.WithLogger(quiet{}))
		must(t, err)
		do(conn)
		conn.Close()
	}
	with(func(conn *zk.Conn) {
		for _, path := range []string{dir, dir + "/child", dir + "2"} {
			_, err := conn.Create(path, []byte("some data"), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
			must(t, err)
		}
	})
	must(t, s.SetSequences(map[string]int32{dir: 1<<31 - 2, dir + "/child": 7}))
	conn := Connect(t, 4*time.Second, s.Addr())
	path, err := conn.Create(dir+"/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	must(t, err)
	if !strings.HasSuffix(path, "/n-2147483646") {
		t.Errorf("the next child is %s", path)
	}
	for path, want := range map[string]string{dir + "2/n-": dir + "2/n-0000000000", dir + "/child/n-": dir + "/child/n-0000000007"} {
		if got, err := conn.Create(path, nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	if data, _, err := conn.Get(dir); err != nil || string(data) != "some data" {
		t.Errorf("%q, %v", data, err)
	}
}
