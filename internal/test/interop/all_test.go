package interop

import (
	"testing"

	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

// A lock that is taken together with others excludes the clients of other libraries, too.
func TestSeveralLocksWithCurator(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourAll(s.Stage, allMutex()), curatorAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, mutex, b, mutex)
	s.excludes(b, mutex, a, mutex)
	s.fights(corner{ours, []string{mutex}}, corner{theirs, []string{mutex}}, crowd)
	theirs.part()
}

func TestSeveralLocksWithCuratorsReadWriteLock(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourAll(s.Stage, allRW(rwlock.WithCuratorNames())), curatorAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	for _, kinds := range [][2]string{{write, write}, {write, read}, {read, write}} {
		s.excludes(a, kinds[0], b, kinds[1])
		s.excludes(b, kinds[0], a, kinds[1])
	}
	s.together(a, b)
	s.fights(corner{ours, []string{write, read}}, corner{theirs, []string{write, read}}, crowd)
	theirs.part()
}

func TestSeveralLocksWithKazoo(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourAll(s.Stage, allMutex(reentrant.WithKazooNames())), kazooAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, mutex, b, mutex)
	s.excludes(b, mutex, a, mutex)
	s.fights(corner{ours, []string{mutex}}, corner{theirs, []string{mutex}}, crowd)
	theirs.part()
}
