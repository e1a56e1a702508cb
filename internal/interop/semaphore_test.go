package interop

import (
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/semaphore"
)

// Permits are not shared with other libraries: what can be seen of them is an error.
func TestCuratorSemaphoreIsRefused(t *testing.T) {
	s := newStory(t)
	theirs := curatorAt(t, s.Path)
	p := theirs.party("a")
	p.take("permit")
	p.await()
	s.refuses(s.Path, "is in use by a semaphore of Curator's")
	s.refuses(s.Path+"/leases", "is in use by a semaphore of Curator's, for its leases")
	p.give()
	theirs.part()
}

func TestKazooSemaphoreIsRefused(t *testing.T) {
	s := newStory(t)
	theirs := kazooAt(t, s.Path)
	p := theirs.party("a")
	p.take("permit")
	p.await()
	s.refuses(s.Path, "is in use by a semaphore of kazoo's")
	p.give()
	s.Empty()
	theirs.part()
}

func (s *story) refuses(path, why string) {
	s.Helper()
	before := zktest.Children(s, s.Witness, path)
	_, err := semaphore.New(s.Connect(), path, 1).TryAcquire(s.Ctx, 1)
	s.Is(err, semaphore.ErrMismatch)
	if err == nil || !strings.Contains(err.Error(), path+" "+why) {
		s.Errorf("error %v, want that %s %s", err, path, why)
	}
	if after := zktest.Children(s, s.Witness, path); len(after) != len(before) {
		s.Errorf("children %q, before %q", after, before)
	}
}
