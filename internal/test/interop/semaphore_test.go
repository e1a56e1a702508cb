package interop

import (
	"slices"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
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
	before := s.stays(path)
	_, err := semaphore.New(locks.On(s.Connect()), path, 1).TryAcquire(s.Ctx, 1)
	s.Is(err, semaphore.ErrMismatch)
	if err == nil || !strings.Contains(err.Error(), path+" "+why) {
		s.Errorf("error %v, want that %s %s", err, path, why)
	}
	if after := s.stays(path); !slices.Equal(after, before) {
		s.Errorf("children %q, before %q", after, before)
	}
}

// stays lists the children that the server leaves alone. Curator's "locks" is a container, empty
// while no thread waits for a permit: the server may sweep it at any time.
func (s *story) stays(path string) []string {
	s.Helper()
	return slices.DeleteFunc(test.Children(s, s.Witness, path), func(name string) bool { return name == "locks" })
}
