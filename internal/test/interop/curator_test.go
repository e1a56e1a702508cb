package interop

import (
	"fmt"
	"os"
	"path/filepath"
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
	kinds := []string{write, read}
	if downgradesInPlace(t) {
		s.downgrades(b, a, ours.party("c"))
		kinds = append(kinds, downgrade)
	} else {
		s.downgradesAlone(b, a, ours.party("c"))
	}
	s.fights(corner{ours, []string{write, read, downgrade, read}}, corner{theirs, kinds}, crowd)
	theirs.part()
}

// downgradesInPlace reports whether Curator's downgrade keeps the place in the queue, as it does
// since 5.5.0. Before 5.5.0 it grants the lock to a waiting writer of any library (CURATOR-621).
// Debian's Curator is 5.4.0; scripts/unpack.sh has the version of the other Curator that the tests
// use.
func downgradesInPlace(t *testing.T) bool {
	t.Helper()
	home := os.Getenv("CURATOR_HOME")
	if home == "" {
		return false
	}
	var major, minor int
	text, err := os.ReadFile(filepath.Join(home, "version"))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "curator %d.%d", &major, &minor)
	}
	if err != nil {
		t.Fatalf("which Curator is in CURATOR_HOME: %v", err)
	}
	return major > 5 || major == 5 && minor >= 5
}
