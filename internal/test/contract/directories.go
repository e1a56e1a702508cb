package contract

import (
	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var directories = []scenario{
	{"a directory that is ephemeral is an error", ephemeralDirectory, 0},
	{"the directory of an idle lock goes by itself", idleGoes, 0},
	{"a holder and a waiter whose directory is deleted", deletedDirectory, 0},
	{"a directory that is deleted between the create and the listing is made again", deletedBeforeTheListing, 0},
}

// makeDir creates the directory as a persistent node, and also the directory of the other lock of
// the recipe, if it has two.
func (s *scene) makeDir(acl []zk.ACL) {
	s.Helper()
	if s.Dir != s.Path {
		_, err := s.Witness.Client().Create(s.Path, []byte(s.r.Stored), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		s.Must(err)
	}
	for _, dir := range s.dirs() {
		_, err := s.Witness.Client().Create(dir, nil, zk.FlagPersistent, acl)
		s.Must(err)
	}
}

func ephemeralDirectory(s *scene) {
	if s.Dir != s.Path {
		_, err := s.Witness.Client().Create(s.Path, []byte(s.r.Stored), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		s.Must(err)
	}
	_, err := s.Witness.Client().Create(s.Dir, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	c := s.behind()
	for _, call := range []lockFunc{c.Lock, c.TryLock, c.Block} {
		a := c.begin(call)
		s.Is(a.Failed(), zk.ErrNoChildrenForEphemerals)
	}
	if n := c.proxy.Seen(proxy.AnyOp); n > few {
		s.Errorf("%d requests", n)
	}
	below := c.begin(s.r.New(locks.On(c.conn), s.Dir+"/a/b").Lock) // nor can its directories be made there
	s.Is(below.Failed(), zk.ErrNoChildrenForEphemerals)
	s.AtOnce("a Lock", below.At.Sub(below.Began))
	s.Must(s.Witness.Client().Delete(s.Dir, -1))
	s.release(c.lock()) // the value is as good as before
}

func idleGoes(s *scene) {
	s.release(s.client().lock())
	test.Eventually(s, soon, "the directory is gone", func() bool {
		exists, _, err := s.Witness.Client().Exists(s.Dir)
		return err == nil && !exists
	})
}

// wipe deletes directories and the nodes in them, at once.
func (s *scene) wipe(dirs ...string) {
	s.Helper()
	var all []any
	for _, dir := range dirs {
		for path := range s.nodesIn(dir, 0) {
			all = append(all, &zk.DeleteRequest{Path: path, Version: -1})
		}
		all = append(all, &zk.DeleteRequest{Path: dir, Version: -1})
	}
	_, err := s.Witness.Client().Multi(all...)
	s.Must(err)
}

func deletedDirectory(s *scene) {
	holder, waiter := s.client(), s.client()
	h := holder.block()
	ctx := h.Context(s.Ctx)
	a := waiter.wait(2)
	s.wipe(s.Dir)
	s.over(h, ctx)
	got := a.Granted()
	if got.Verify(s.Ctx) != nil {
		// The waiter received the event of the holder's deletion first: it was granted the lock,
		// and lost it with the directory.
		s.over(got, got.Context(s.Ctx))
		got = waiter.lock()
	}
	s.grows(h, got)
	s.release(got)
}

func deletedBeforeTheListing(s *scene) {
	holder, c := s.client(), s.behind()
	s.release(c.lock())
	h := holder.block()
	before := c.proxy.Seen(proxy.AnyOp)
	list := c.proxy.Next(proxy.ListOp, proxy.HoldRequest)
	a := c.wait(2)
	s.Fired(list)
	s.wipe(s.dirs()...)
	list.Release()
	got := a.Granted()
	s.Must(got.Verify(s.Ctx))
	s.inLine(1)
	if n := c.proxy.Seen(proxy.AnyOp) - before; n > 2*few {
		s.Errorf("%d requests", n)
	}
	s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	s.release(got)
}
