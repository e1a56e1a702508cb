package interop

import (
	"testing"

	"github.com/zklocks/zklocks/rwlock"
)

func TestCuratorMutex(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourMutex(s.Stage), curatorAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, mutex, b, mutex)
	s.excludes(b, mutex, a, mutex)
	s.fights(corner{ours, []string{mutex}}, corner{theirs, []string{mutex}}, crowd)
	theirs.part()
}

func TestCuratorReadWriteLock(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourRW(s.Stage, rwlock.WithCuratorNames()), curatorAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	for _, kinds := range [][2]string{{write, write}, {write, read}, {read, write}} {
		s.excludes(a, kinds[0], b, kinds[1])
		s.excludes(b, kinds[0], a, kinds[1])
	}
	s.together(a, b)
	s.together(b, a)
	s.queues(a, b, ours.party("c"))
	s.queues(b, a, theirs.party("c"))
	s.downgrades(a, b, theirs.party("c"))
	// Until 5.5.0 Curator's downgrade grants the lock to a writer that waits, of whichever library
	// (CURATOR-621).
	s.downgradesAlone(b, a, ours.party("c"))
	s.fights(corner{ours, []string{write, read, downgrade, read}}, corner{theirs, []string{write, read}}, crowd)
	theirs.part()
}
