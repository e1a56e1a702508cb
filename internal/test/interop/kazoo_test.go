package interop

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

func TestKazooLock(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourMutex(s.Stage, reentrant.WithKazooNames()), kazooAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, mutex, b, mutex)
	s.excludes(b, mutex, a, mutex)
	s.fights(corner{ours, []string{mutex}}, corner{theirs, []string{mutex}}, crowd)
	theirs.part()
}

func TestKazooReadAndWriteLock(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourRW(s.Stage, rwlock.WithKazooNames()), kazooAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	for _, kinds := range [][2]string{{write, write}, {write, read}, {read, write}} {
		s.excludes(a, kinds[0], b, kinds[1])
		s.excludes(b, kinds[0], a, kinds[1])
	}
	s.together(a, b)
	s.together(b, a)
	s.queues(a, b, ours.party("c"))
	s.queues(b, a, theirs.party("c"))
	s.downgrades(a, b, ours.party("c"))
	s.fights(corner{ours, []string{write, read, downgrade, read}}, corner{theirs, []string{write}}, crowd)
	// kazoo's readers starve while writers are queued: see peer.py.
	s.fights(corner{ours, []string{read, read, write}}, corner{theirs, []string{read}}, 1)
	theirs.part()
}

// With patterns kazoo waits for our usual names. Without WithKazooNames we do not wait for kazoo's.
func TestKazooWithPatternsExcludesOneWayOnly(t *testing.T) {
	s := newStory(t)
	theirs := kazooAt(t, s.Path)
	b := theirs.party("b")
	// Otherwise the server deletes our directory whenever the directory is empty, even between two
	// steps of kazoo.
	_, err := s.Witness.Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	s.Must(err)
	for _, c := range []struct {
		ours         *local
		kind, theirs string
	}{
		{ourMutex(s.Stage), mutex, mutex + ":-lock-"},
		{ourRW(s.Stage), write, write + ":-read-:-write-"},
		{ourRW(s.Stage), write, read + ":-write-"},
		{ourRW(s.Stage), read, write + ":-read-:-write-"},
	} {
		a := c.ours.party("a")
		s.excludes(a, c.kind, b, c.theirs)
		s.takes(b, c.theirs)
		s.takes(a, c.kind)
		a.give()
		b.give()
	}
	theirs.part()
}
