package interop

import "testing"

func TestZkLock(t *testing.T) {
	s := newStory(t)
	ours, theirs := ourMutex(s.Stage), zkLock(s.Stage)
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, mutex, b, mutex)
	s.excludes(b, mutex, a, mutex)
	s.fights(corner{ours, []string{mutex}}, corner{theirs, []string{mutex}}, crowd)
}
