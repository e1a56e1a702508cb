package zkclient

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// reaped waits until the server deletes containers that have been used. Only its deletion tells a
// container from another node.
func (l *line) reaped(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if child, err := l.witness.Client().Create(path+"/used", nil, 0, open); err == nil { // else it is gone already
			must(t, l.witness.Client().Delete(child, -1))
		}
		test.Eventually(t, 10*time.Second, path+" is swept up", func() bool {
			exists, _, err := l.witness.Client().Exists(path)
			return err == nil && !exists
		})
	}
}

// stays checks that the nodes exist.
func (l *line) stays(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if exists, _, err := l.witness.Client().Exists(path); err != nil || !exists {
			t.Errorf("%s: exists %v, %v", path, exists, err)
		}
	}
}

func TestMakeDirMakesContainersAllTheWay(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		ctx := within(t, 20*time.Second)
		dir := l.dir + "/a/b/c"
		must(t, l.client.MakeDir(ctx, dir, open))
		must(t, l.client.MakeDir(ctx, dir, open)) // it exists
		must(t, l.client.MakeDir(ctx, l.dir, open))

		claim := l.want(1)
		claim.Dir = dir
		made, err := claimOne(ctx, l.client, l.sess, claim)
		must(t, err)
		must(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: dir, Nodes: made.Nodes})))
		test.AssertEmpty(t, l.witness.Client(), l.dir) // the server deletes them one after the other
		l.stays(t, l.dir)
	})
}

// The server deletes the parent right after it was created.
func TestMakeDirWhoseParentIsReaped(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		dir := l.dir + "/a/b"
		again := l.Nth(proxy.MkdirOp, 3, proxy.HoldRequest) // after the create that finds no parent, and the create of the parent
		made := async(func() error { return l.client.MakeDir(within(t, 20*time.Second), dir, open) })
		fired(t, again)
		must(t, l.witness.Client().Delete(l.dir+"/a", -1))
		again.Release()
		must(t, result(t, 10*time.Second, "the directory", made))
		l.stays(t, dir)
	})
}

func TestMakeDirSurvivesALostConnection(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		for i, action := range []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
			for n := 1; n <= 3; n++ { // the create that finds no parent, the create of the parent, and the first create again
				f := l.Nth(proxy.MkdirOp, n, action)
				path := fmt.Sprintf("%s/%d-%d/a", l.dir, i, n)
				must(t, l.client.MakeDir(within(t, 20*time.Second), path, open))
				fired(t, f)
				l.stays(t, path)
			}
		}
	})
}

// The directories of a claim, and those above, are made with its nodes or not at all.
func TestAClaimMakesItsDirectories(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		ctx := within(t, 20*time.Second)
		container := func(path string) *zk.CreateRequest {
			return &zk.CreateRequest{Path: path, Acl: open, Flags: zk.FlagContainer}
		}
		plain := &zk.CreateRequest{Path: l.dir + "/a/plain", Data: []byte("8"), Acl: open}
		first, second := l.want(2), l.want(1)
		first.Dir, first.Make = l.dir+"/a/b", []*zk.CreateRequest{container(l.dir + "/a"), container(l.dir + "/a/b")}
		second.Dir, second.Make = l.dir+"/a/plain/c", []*zk.CreateRequest{container(l.dir + "/a"), plain, container(l.dir + "/a/plain/c")}

		_, at, err := l.client.Claim(ctx, l.sess, first, Claim{Dir: l.dir + "/none", Kind: second.Kind, Nodes: 1, ACL: open})
		if mustBe(t, err, zk.ErrNoNode); at != (Step{1, Creates}) {
			t.Errorf("refused at %+v", at)
		}
		none := first
		none.Make = first.Make[1:]
		if _, at, err := l.client.Claim(ctx, l.sess, none); err != zk.ErrNoNode || at != (Step{0, Makes}) {
			t.Errorf("without the parent: %v at %+v", err, at)
		}
		test.AssertEmpty(t, l.witness.Client(), l.dir)

		lost := l.Next(proxy.CreateOp, proxy.CutAfterCommit)
		made, _, err := l.client.Claim(ctx, l.sess, first, second)
		must(t, err)
		<-lost.Fired()
		if len(made) != 2 || len(made[0].Nodes) != 2 || len(made[1].Nodes) != 1 {
			t.Fatalf("made %+v", made)
		}
		if _, at, err := l.client.Claim(ctx, l.sess, none); err != zk.ErrNodeExists || at != (Step{0, Makes}) {
			t.Errorf("once more: %v at %+v", err, at)
		}
		data, _, err := l.client.Get(ctx, plain.Path)
		if err != nil || string(data) != "8" {
			t.Errorf("%q, %v", data, err)
		}
		must(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: first.Dir, Nodes: made[0].Nodes}, Removal{Dir: second.Dir, Nodes: made[1].Nodes})))
		l.reaped(t, first.Dir, second.Dir)
		l.stays(t, plain.Path)
		must(t, l.witness.Client().Delete(plain.Path, -1))
		l.reaped(t, l.dir+"/a")

		// The reply has the Stat of the directory as the touch leaves it, not as it was made.
		for _, touch := range []bool{true, false} {
			first.Touch = touch
			made, _, err = l.client.Claim(ctx, l.sess, first)
			must(t, err)
			if dir := made[0].Dir; touch != (dir != nil) || touch && dir.NumChildren != 2 {
				t.Errorf("touch %v: the directory is %+v", touch, dir)
			}
			must(t, result(t, 10*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: first.Dir, Nodes: made[0].Nodes})))
			l.reaped(t, first.Dir, l.dir+"/a")
		}

		l.Next(proxy.CreateOp, proxy.Answer(-8)) // as an old server, which knows no containers
		if _, _, err := l.client.Claim(ctx, l.sess, first); !errors.Is(err, zk.ErrBadArguments) || !strings.Contains(err.Error(), "3.5.1") {
			t.Errorf("on an old server: %v", err)
		}
	})
}

func TestMakeNode(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		ctx := within(t, 20*time.Second)
		must(t, l.client.MakeNode(ctx, l.dir+"/n", []byte("8"), open))
		mustBe(t, l.client.MakeNode(ctx, l.dir+"/n", []byte("9"), open), zk.ErrNodeExists)
		data, _, err := l.client.Get(ctx, l.dir+"/n")
		if err != nil || string(data) != "8" {
			t.Errorf("%q, %v", data, err)
		}
		for version, want := range []error{nil, nil, zk.ErrBadVersion} { // the first time SetWith makes the directory
			mustBe(t, l.client.SetWith(ctx, l.dir+"/n", []byte("9"), int32(min(version, 1)), l.dir+"/n/below", open), want)
		}
		l.stays(t, l.dir+"/n/below")
		second := l.Next(proxy.SetOp, proxy.HoldRequest) // without the directory, which exists
		late := async(func() error { return l.client.SetWith(ctx, l.dir+"/n", nil, 2, l.dir+"/n/below", open) })
		fired(t, second)
		must(t, errOf(l.witness.Client().Set(l.dir+"/n", nil, 2)))
		second.Release()
		mustBe(t, <-late, zk.ErrBadVersion)
		must(t, l.client.MakeNode(ctx, l.dir+"/p/q", nil, open))
		must(t, l.witness.Client().Delete(l.dir+"/p/q", -1))
		l.reaped(t, l.dir+"/p") // a parent that MakeNode has created
		ephemeral := l.path(l.claim(t, 1)[0])
		mustBe(t, l.client.MakeDir(ctx, ephemeral+"/x/y", open), zk.ErrNoChildrenForEphemerals)
		if err := l.client.MakeDir(ctx, l.dir+"/no-acl", nil); !errors.Is(err, zk.ErrInvalidACL) {
			t.Errorf("without an ACL: %v", err)
		}
		l.Next(proxy.MkdirOp, proxy.Answer(-8)) // as an old server, which knows no containers
		if err := l.client.MakeDir(ctx, l.dir+"/old", open); !errors.Is(err, zk.ErrBadArguments) || !strings.Contains(err.Error(), "3.5.1") {
			t.Errorf("on an old server: %v", err)
		}
	})
}

// The server accepts each path that the validator accepts, and a node in it.
func TestWhatTheValidatorAcceptsTheServerAccepts(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 20*time.Second)
		paths := []string{test.Path(t) + "zookeeper"} // right below the root
		for _, path := range []string{
			"/a", "/a/b", "/a b", "/a.b", "/...", "/.a", "/a.", "/a..b", "/..a/b", "/-", "/%2e%2e", "/zookeeperx", "/_zookeeper",
			"/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/ü/日本", "/lock-0000000001/lock-0000000002", "/" + strings.Repeat("x", 64<<10-41),
			strings.Repeat("/a", 100),
		} {
			must(t, znode.ValidatePath(path))
			paths = append(paths, l.dir+path)
		}
		for _, path := range paths {
			ctx := within(t, 20*time.Second)
			must(t, l.client.MakeNode(ctx, path, nil, open)) // no container: the server deletes an empty one
			made, err := claimOne(ctx, l.client, l.sess, Claim{Dir: path, Kind: znode.Lock, Nodes: 1, ACL: open})
			must(t, err)
			if names, _, err := l.client.Children(ctx, l.sess, path); err != nil || !slices.Contains(names, made.Nodes[0].Name) {
				t.Errorf("%.100q: its node is not in it: %q, %v", path, names, err)
			}
			must(t, l.client.RemoveNow(l.sess, Removal{Dir: path, Nodes: made.Nodes}))
			must(t, l.witness.Client().Delete(path, -1))
		}
	})
}
