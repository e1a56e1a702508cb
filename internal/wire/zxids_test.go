package wire_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// Track returns the zxid of a create, whether the create is sent alone or in a Multi.
func TestTheZxidOfACreateIsTold(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		conn := connect(t, v, 20*time.Second, v.Servers(t))
		dir := test.Path(t)
		must(t, errOf(conn.Create(dir, nil, 0, open)))
		prefix := dir + "/some-id-"
		create := &zk.CreateRequest{Path: prefix, Acl: open, Flags: zk.FlagSequence}
		check := &zk.CheckVersionRequest{Path: dir, Version: -1}
		set := &zk.SetDataRequest{Path: dir, Version: -1}
		multi := func(ops ...any) func() (string, error) {
			return func() (path string, err error) {
				replies, err := conn.Multi(ops...)
				for _, r := range replies {
					path += r.String
				}
				return path, err
			}
		}
		for name, send := range map[string]func() (string, error){
			"alone":          func() (string, error) { return conn.Create(prefix, nil, zk.FlagSequence, open) },
			"first":          multi(create, set),
			"behind a check": multi(check, create),
			"in the middle":  multi(check, create, set),
		} {
			pending, forget := conn.Track(prefix)
			path, err := send()
			forget()
			must(t, err)
			_, stat, err := conn.Get(path)
			must(t, err)
			must(t, errOf(send())) // nothing records it after forget
			if pending.Load() != stat.Czxid {
				t.Errorf("%s: told %d, the node has %d", name, pending.Load(), stat.Czxid)
			}
		}
		// Other requests set no zxid.
		pending, forget := conn.Track(prefix)
		for _, send := range []func() (string, error){
			multi(check), multi(set, check), multi(check, check), multi(&zk.CreateRequest{Path: dir + "/other", Acl: open}),
			multi(&zk.DeleteRequest{Path: dir + "/other", Version: -1}),
		} {
			_, err := send()
			must(t, err)
		}
		forget()
		if pending.Load() != 0 {
			t.Error("told of another one's create")
		}
	})
}
