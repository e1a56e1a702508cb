package contract

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
)

var directories = []scenario{
	{"a path of which several levels are missing is made", deepPath, 0},
	{"a directory that somebody made serves as well", plainDirectory, 0},
	{"the directory of an idle lock goes by itself", idleGoes, 0},
	{"a directory that vanishes between two steps is made again", vanishing, 0},
	{"a holder and a waiter whose directory is deleted", deletedDirectory, 0},
}

func deepPath(s *scene) {
	s.move(s.path + "/b/c/d")
	c := s.client().again()
	h := c.lock()
	s.inLine(1)
	s.unlock(h)
}

// makeDir makes the directory by hand, as a node that stays.
func (s *scene) makeDir(acl []zk.ACL) {
	s.Helper()
	if s.dir != s.path {
		_, err := s.witness.Create(s.path, []byte(s.r.Stored), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		s.must(err)
	}
	_, err := s.witness.Create(s.dir, nil, zk.FlagPersistent, acl)
	s.must(err)
}

func plainDirectory(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	_, err := s.witness.Set(s.dir, []byte("text"), -1)
	s.must(err)
	holder, c := s.client(), s.client()
	h := holder.block()
	a := c.wait(2)
	s.unlock(h)
	s.unlock(a.granted())
}

func idleGoes(s *scene) {
	s.unlock(s.client().lock())
	zktest.Eventually(s, soon, "the directory is gone", func() bool {
		exists, _, err := s.witness.Exists(s.dir)
		return err == nil && !exists
	})
}

// vanishing has somebody delete the directory whenever it is empty, as the
// server does with containers, but as often as possible.
func vanishing(s *scene) {
	const rounds = 50
	stop := make(chan struct{})
	var all, reaper sync.WaitGroup
	var reaped atomic.Int64
	reaper.Go(func() {
		for !closed(stop) {
			switch err := s.witness.Delete(s.dir, -1); {
			case err == nil:
				reaped.Add(1)
			case errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrNoNode):
			default:
				s.Error(err)
			}
		}
	})
	var inside atomic.Int32
	for range 3 {
		c := s.client()
		all.Go(func() {
			for range rounds {
				h, err := c.Block(s.ctx)
				if err != nil {
					s.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					s.Errorf("%d inside", n)
				}
				inside.Add(-1)
				if err := h.Unlock(s.ctx); err != nil {
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	reaper.Wait()
	if reaped.Load() == 0 {
		s.Error("the directory was never deleted")
	}
	s.Logf("deleted %d times in %d holds", reaped.Load(), 3*rounds)
}

func deletedDirectory(s *scene) {
	holder, waiter := s.client(), s.client()
	h := holder.block()
	ctx := h.Context(s.ctx)
	a := waiter.wait(2)
	var all []any
	for _, name := range zktest.Children(s, s.witness, s.dir) {
		all = append(all, &zk.DeleteRequest{Path: s.dir + "/" + name, Version: -1})
	}
	_, err := s.witness.Multi(append(all, &zk.DeleteRequest{Path: s.dir, Version: -1})...)
	s.must(err)
	s.over(h, ctx)
	got := a.granted()
	if got.Verify(s.ctx) != nil {
		// Of the two it heard first that the holder was gone: granted, and
		// lost with the directory.
		s.over(got, got.Context(s.ctx))
		got = waiter.lock()
	}
	if got.Token() <= h.Token() {
		s.Errorf("token %d after %d", got.Token(), h.Token())
	}
	s.unlock(got)
}
