package interop

import "testing"

// Without WithKazooNames we do not see kazoo's nodes, whatever patterns it knows.
// The counter and the record show it: they can fail.
func TestKazooWithPatternsExcludesOneWayOnly(t *testing.T) {
	s := newStory(t)
	const patterned = mutex + ":-lock-"
	ours, theirs := ourMutex(s.Stage), kazooAt(t, s.Path)
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, mutex, b, patterned)
	s.takes(b, patterned)
	s.takes(a, mutex)
	a.give()
	b.give()
	if wrong := s.fought(corner{ours, []string{mutex}}, corner{theirs, []string{patterned}}); len(wrong) < 2 {
		t.Errorf("two that do not exclude each other have done no harm, or it was not seen: %q", wrong)
	}
	theirs.part()
}
