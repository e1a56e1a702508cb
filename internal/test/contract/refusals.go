package contract

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/znode"
)

var refusals = []scenario{
	{"a call that is refused changes nothing", refusedChangesNothing, inMemory},
}

// Tree returns the nodes at and below a path, with their data.
func (s *Stage) Tree(path string) map[string]string {
	s.Helper()
	tree := make(map[string]string)
	data, _, err := s.Witness.Client().Get(path)
	if err == zk.ErrNoNode {
		return tree
	}
	s.Must(err)
	tree[path] = string(data)
	for _, child := range test.Children(s, s.Witness.Client(), path) {
		maps.Copy(tree, s.Tree(path+"/"+child))
	}
	return tree
}

// Unchanged makes refused calls, and asserts that the nodes at and below a path are the same before
// and after, and when the servers have looked for empty containers three times.
func (s *Stage) Unchanged(path, what string, calls func()) {
	s.Helper()
	before := s.Tree(path)
	calls()
	s.Settle()
	for _, later := range []time.Duration{time.Second, 4 * time.Minute} {
		s.Pass(later)
		if after := s.Tree(path); !maps.Equal(before, after) {
			s.Errorf("%s: %v later there are %q, before there were %q", what, later, after, before)
		}
	}
}

// refusedChangesNothing has each surrounding in which every call is refused, at a path of its own.
func refusedChangesNothing(s *scene) {
	s.Ctx = context.Background() // it takes longer than a scenario may
	create := func(path, data string, acl []zk.ACL) {
		s.Helper()
		_, err := s.Witness.Client().Create(path, []byte(data), zk.FlagPersistent, acl)
		s.Must(err)
	}
	world, readOnly := zk.WorldACL(zk.PermAll), zk.WorldACL(zk.PermRead)
	ours, foreign := s.ours(), s.foreign()
	base := s.Path + "-base"
	create(base, "", world)
	conn := s.Connect()
	open := func(path string, opts ...zklocks.Option) Locker { return s.r.New(locks.On(conn), path, opts...) }
	at := func(name string) (path, dir string) { path = base + "/" + name; return path, path + s.r.Below }
	refused := func(what string, l Locker, ways ...lockFunc) {
		s.Helper()
		if ways == nil {
			ways = []lockFunc{l.Lock, l.TryLock, l.Block}
		}
		s.Unchanged(base, what, func() {
			for _, way := range ways {
				if h, err := way(s.Ctx); err == nil {
					s.Errorf("%s: no error", what)
					_ = h.Release(s.Ctx)
				}
			}
		})
	}
	build := func(name string) (path, dir string) {
		path, dir = at(name)
		if s.r.Below != "" {
			create(path, s.r.Stored, world)
		}
		return path, dir
	}

	for _, below := range []string{"", "/x/y"} {
		path, _ := at("acl" + fmt.Sprint(len(below)))
		refused("an ACL that lets nobody create nodes", open(path+below, zklocks.WithACL(readOnly)))
		refused("an ACL that is none", open(path+below, zklocks.WithACL(zk.AuthACL(zk.PermAll))))
	}
	path, _ := at("closed")
	create(path, "", readOnly)
	refused("no right to make the directory", open(path+"/a"))
	refused("no right to make the directories above", open(path+"/a/b/c"))
	path, dir := build("shut")
	create(dir, "", readOnly)
	refused("no right to create nodes", open(path))
	path, _ = at("text")
	create(path, "no number", world)
	if s.Dir != s.Path || ours {
		refused("data of another program", open(path))
	}
	if s.Dir == s.Path {
		path, _ = at("number")
		create(path, "3", world)
		refused("a semaphore's number", open(path))
	}
	path, dir = build("foreign")
	create(dir, "", world)
	if s.r.Beside != "" {
		create(path+s.r.Beside, "", world)
	}
	for kind, prefix := range foreign {
		if kind != znode.Permit {
			create(dir+"/"+prefix+"0000000000", "", world)
		}
	}
	refused("a lock of another kind", open(path))
	path, _ = at("busy")
	holder := s.client()
	h, err := s.r.New(locks.On(holder.conn), path).Block(s.Ctx)
	s.Must(err)
	l := open(path)
	refused("a lock that is held", l, l.TryLock)
	s.release(h)
}
