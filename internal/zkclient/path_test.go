package zkclient

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// asAccepted creates the directory of a lock at a path that the validator accepts, and a node in
// it. The server must accept both paths.
func asAccepted(t *testing.T, c *Client, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	sess, err := c.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // the server may delete the empty container in between
		if err := c.MakeDir(ctx, path, open); err != nil {
			t.Fatalf("%q is accepted by the validator: %v", path, err)
		}
		made, err := claimOne(ctx, c, sess, Claim{Dir: path, Kind: znode.Lock, Nodes: 1, ACL: open})
		if err != nil {
			continue
		}
		names, _, err := c.Children(ctx, sess, path)
		if err != nil || !slices.Contains(names, made.Nodes[0].Name) {
			t.Errorf("%q: a member of it is not in it: %v, %v", path, names, err)
		}
		if err := <-c.Remove(sess, Removal{Dir: path, Nodes: made.Nodes}); err != nil {
			t.Errorf("%q: %v", path, err)
		}
		return
	}
	t.Errorf("%q: no member was made", path)
}

func TestWhatTheValidatorAcceptsTheServerAccepts(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 20*time.Second)
		for _, path := range []string{
			"/a", "/a/b", "/a b", "/a.b", "/...", "/.a", "/a.", "/a..b", "/..a/b", "/-", "/%2e%2e", "/zookeeperx", "/_zookeeper",
			"/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/ü/日本", "/lock-0000000001/lock-0000000002", "/" + strings.Repeat("x", 64<<10-41),
			strings.Repeat("/a", 100),
		} {
			if err := znode.ValidatePath(path); err != nil {
				t.Errorf("%q: %v", path, err)
			}
			asAccepted(t, l.client, l.dir+path)
		}
		root := test.Path(t) + "zookeeper" // right below the root, too
		asAccepted(t, l.client, root)
	})
}
