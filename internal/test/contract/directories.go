package contract

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var directories = []scenario{
	{"a path of which several levels are missing is made", deepPath, 0},
	{"a directory that another client made serves as well", plainDirectory, 0},
	{"a directory that is ephemeral is an error", ephemeralDirectory, 0},
	{"a server that knows no containers makes directories that stay", withoutContainers, 0},
	{"the directory of an idle lock goes by itself", idleGoes, containers},
	{"a directory that vanishes between two steps is made again", vanishing, 0},
	{"a holder and a waiter whose directory is deleted", deletedDirectory, 0},
	{"a directory that is deleted between the create and the listing is made again", deletedBeforeTheListing, 0},
}

func deepPath(s *scene) {
	s.move(s.Path + "/b/c/d")
	c := s.client().again()
	h := c.lock()
	s.inLine(1)
	s.unlock(h)
}

// makeDir creates the directory as a persistent node, and also the directory of the other lock of
// the recipe, if it has two.
func (s *scene) makeDir(acl []zk.ACL) {
	s.Helper()
	if s.Dir != s.Path {
		_, err := s.Witness.Create(s.Path, []byte(s.r.Stored), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		s.Must(err)
	}
	for _, dir := range s.dirs() {
		_, err := s.Witness.Create(dir, nil, zk.FlagPersistent, acl)
		s.Must(err)
	}
}

func plainDirectory(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	_, err := s.Witness.Set(s.Dir, []byte("text"), -1)
	s.Must(err)
	holder, c := s.client(), s.client()
	h := holder.block()
	a := c.wait(2)
	s.unlock(h)
	s.unlock(a.Granted())
}

func withoutContainers(s *scene) {
	s.move(s.Path + "/b/c")
	c := s.behind()
	c.proxy.HideContainers()
	s.unlock(c.lock())
	asked := c.proxy.Seen(proxy.MkdirOp)
	h := c.lock()
	a := s.client().wait(2)
	s.unlock(h)
	s.unlock(a.Granted())
	if again := c.proxy.Seen(proxy.MkdirOp); again != asked {
		s.Errorf("%d directories were made where there were some", again-asked)
	}
}

func ephemeralDirectory(s *scene) {
	if s.Dir != s.Path {
		_, err := s.Witness.Create(s.Path, []byte(s.r.Stored), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		s.Must(err)
	}
	_, err := s.Witness.Create(s.Dir, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	c := s.behind()
	for _, call := range []lockFunc{c.Lock, c.TryLock, c.Block} {
		a := c.begin(call)
		s.Is(a.Failed(), zk.ErrNoChildrenForEphemerals)
	}
	if n := c.proxy.Seen(proxy.AnyOp); n > few {
		s.Errorf("%d requests", n)
	}
	s.Must(s.Witness.Delete(s.Dir, -1))
	s.unlock(c.lock()) // the value is as good as before
}

func idleGoes(s *scene) {
	s.unlock(s.client().lock())
	test.Eventually(s, soon, "the directory is gone", func() bool {
		exists, _, err := s.Witness.Exists(s.Dir)
		return err == nil && !exists
	})
}

// vanishing deletes the directory from another client whenever it is empty, as the server does with
// containers, but as often as possible.
func vanishing(s *scene) {
	const rounds = 20
	clients := []*client{s.client(), s.client(), s.client(), s.client()} // in memory no time passes while the reaper runs
	stop := make(chan struct{})
	var all, reaper sync.WaitGroup
	var reaped atomic.Int64
	reaper.Go(func() {
		for !closed(stop) {
			switch err := s.Witness.Delete(s.Dir, -1); {
			case err == nil:
				reaped.Add(1)
				if !s.Virtual() { // in memory the clients run without this, and no time would pass
					time.Sleep(rand.N(4 * time.Millisecond)) // a directory is created and a node in it in about one millisecond
				}
			case errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrNoNode):
			default:
				s.Error(err)
			}
		}
	})
	var inside atomic.Int32
	cycle := func(c *client) bool {
		h, err := c.Block(s.Ctx)
		if err != nil {
			s.Error(err)
			return false
		}
		if n := inside.Add(1); n != 1 {
			s.Errorf("%d inside", n)
		}
		inside.Add(-1)
		if err := h.Release(s.Ctx); err != nil {
			s.Error(err)
		}
		return true
	}
	for reaped.Load() < rounds && cycle(clients[0]) { // one client alone, so that the directory is often empty
	}
	for _, c := range clients[1:] {
		all.Go(func() {
			for range rounds {
				if !cycle(c) {
					return
				}
			}
		})
	}
	all.Wait()
	close(stop)
	reaper.Wait()
	s.Logf("deleted %d times", reaped.Load())
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
	_, err := s.Witness.Multi(all...)
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
	if got.Token() <= h.Token() {
		s.Errorf("token %d after %d", got.Token(), h.Token())
	}
	s.unlock(got)
}

func deletedBeforeTheListing(s *scene) {
	holder, c := s.client(), s.behind()
	s.unlock(c.lock())
	h := holder.block()
	before := c.proxy.Seen(proxy.AnyOp)
	list := c.proxy.Next(proxy.ListOp, proxy.HoldRequest)
	a := c.wait(2)
	test.Within(s, soon, "the listing is under way", func() { <-list.Fired() })
	s.wipe(s.dirs()...)
	list.Release()
	got := a.Granted()
	s.Must(got.Verify(s.Ctx))
	s.inLine(1)
	if n := c.proxy.Seen(proxy.AnyOp) - before; n > 2*few {
		s.Errorf("%d requests", n)
	}
	s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	s.unlock(got)
}
