package wire_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// release deletes a node, and creates and deletes its marker.
func release(t *testing.T, conn *wire.Conn, path, marker string) {
	t.Helper()
	_, err := conn.Client().Multi(
		&zk.CreateRequest{Path: marker, Acl: open, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: marker, Version: -1},
		&zk.DeleteRequest{Path: path, Version: -1})
	must(t, err)
}

func TestMarkers(t *testing.T) {
	for name, tc := range map[string]struct {
		goes func(t *testing.T, witness *wire.Conn, path, marker string)
		want zk.EventType
	}{
		"with the marker": {release, zk.EventNodeCreated},
		"without":         {func(t *testing.T, witness *wire.Conn, path, _ string) { must(t, witness.Client().Delete(path, -1)) }, zk.EventNodeDeleted},
		"a change":        {func(t *testing.T, witness *wire.Conn, path, _ string) { set(t, witness, path) }, zk.EventNodeDataChanged},
		"another marker":  {func(t *testing.T, witness *wire.Conn, path, marker string) { release(t, witness, path, marker+"2") }, zk.EventNodeDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
				answered(t, conn)
				paths := nodes(t, witness, 2)
				marker := paths[0] + "-marker"
				before := p.Seen(proxy.AnyOp)
				w, err := conn.WatchNodes(t.Context(), wire.AnySession, paths, marker)
				must(t, err)
				if n := p.Seen(proxy.AnyOp) - before; n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				same, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[:1], marker)
				must(t, err)
				unmarked, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[:1], "")
				must(t, err)
				foreign, err := conn.WatchNodes(t.Context(), wire.AnySession, paths[:1], marker+"3") // of waiters for other nodes of the line
				must(t, err)
				tc.goes(t, witness, paths[0], marker)
				if same[0] != w[0] {
					t.Error("two watches for one node and one marker")
				}
				e := hears(t, w[0])
				if want := map[bool]string{true: marker, false: paths[0]}[tc.want == zk.EventNodeCreated]; e.Type != tc.want || e.Path != want {
					t.Errorf("a watch hears %+v", e)
				}
				without := tc.want
				if without == zk.EventNodeCreated {
					without = zk.EventNodeDeleted
				}
				for _, w := range []*wire.Watch{unmarked[0], foreign[0]} {
					if e := hears(t, w); e.Type != without || e.Path != paths[0] {
						t.Errorf("who does not wait for that marker hears %+v", e)
					}
				}
				release(t, witness, paths[1], paths[1]+"-marker")
				if e := hears(t, w[1]); e.Type != zk.EventNodeDeleted {
					t.Errorf("where no marker was asked for a watch hears %+v", e)
				}
				// The watch on a marker that will not be created is removed.
				test.Eventually(t, 20*time.Second, "no watch is left", func() bool { return len(v.Watched(t, conn.Session())) == 0 })
			})
		})
	}
}

// For nodes that do not exist, and for nodes that are deleted without their markers, no watch is
// left, also if the server throttles the requests that remove them.
func TestMarkersThatNeverCome(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		answered(t, conn)
		throttled := []*proxy.Fault{p.Next(proxy.OtherOp, proxy.Answer(-127)), p.Next(proxy.OtherOp, proxy.Answer(-127))}
		for i, path := range nodes(t, witness, 20) {
			if i%2 == 0 {
				must(t, witness.Client().Delete(path, -1))
			}
			w, err := conn.WatchNodes(t.Context(), wire.AnySession, []string{path}, path+"-marker")
			must(t, err)
			if i%2 == 0 {
				if w[0] != nil {
					t.Fatal("a watch on a node that does not exist")
				}
				continue
			}
			must(t, witness.Client().Delete(path, -1))
			if e := hears(t, w[0]); e.Type != zk.EventNodeDeleted {
				t.Fatalf("hears %+v", e)
			}
		}
		for _, f := range throttled {
			test.Within(t, 20*time.Second, "the request is throttled", func() { <-f.Fired() })
		}
		test.Eventually(t, 20*time.Second, "no watch is left", func() bool { return len(v.Watched(t, conn.Session())) == 0 })
	})
}
