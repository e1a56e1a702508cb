package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestZkLock(t *testing.T) {
	onEach(t, func(s *story) {
		s.mutexes(ourMutex(s.Stage), zkLock(s.Stage))
	})
}

func TestCuratorMutex(t *testing.T) {
	onEach(t, func(s *story) {
		s.mutexes(ourMutex(s.Stage), s.curator())
	})
}

func TestKazooLock(t *testing.T) {
	onEach(t, func(s *story) {
		s.mutexes(ourMutex(s.Stage, reentrant.WithKazooNames()), s.kazoo())
	})
}

// A semaphore of another library does not share its permits with ours. But the kit must serve it.
func TestCuratorSemaphore(t *testing.T) { onEach(t, func(s *story) { s.permits(s.curator()) }) }

func TestKazooSemaphore(t *testing.T) { onEach(t, func(s *story) { s.permits(s.kazoo()) }) }

// permits asserts that one holds the only permit of a peer's semaphore at a time.
func (s *story) permits(theirs *peer) {
	s.Helper()
	counter := s.counter()
	theirs.open(fighters)
	for _, text := range s.judge(counter, theirs.fight(counter, []string{permit})()) {
		s.Error(text)
	}
	theirs.part()
}

// A lock that is taken together with others excludes the clients of other libraries, too.
func TestSeveralLocksWithCurator(t *testing.T) {
	onEach(t, func(s *story) {
		s.mutexes(ourAll(s.Stage, allMutex()), s.curator())
	})
}

func TestSeveralLocksWithKazoo(t *testing.T) {
	onEach(t, func(s *story) {
		s.mutexes(ourAll(s.Stage, allMutex(reentrant.WithKazooNames())), s.kazoo())
	})
}

func TestSeveralLocksWithCuratorsReadWriteLock(t *testing.T) {
	onEach(t, func(s *story) {
		ours, theirs := ourAll(s.Stage, allRW(rwlock.WithCuratorNames())), s.curator()
		s.writersAndReaders(ours.party("a"), theirs.party("b"))
		s.fights(ours, []string{write, read}, theirs, []string{write, read}, crowd)
		theirs.part()
	})
}

func TestCuratorReadWriteLock(t *testing.T) {
	onEach(t, func(s *story) {
		t := s.T
		ours, theirs := ourRW(s.Stage, rwlock.WithCuratorNames()), s.curator()
		a, b := ours.party("a"), theirs.party("b")
		s.writersAndReaders(a, b)
		s.queues(a, b, ours.party("c"))
		s.queues(b, a, theirs.party("c"))
		s.downgrades(a, b, theirs.party("c"), true)
		kinds := []string{write, read}
		inPlace := downgradesInPlace(t)
		s.downgrades(b, a, ours.party("c"), inPlace)
		if inPlace {
			kinds = append(kinds, downgrade)
		}
		s.fights(ours, []string{write, read, downgrade, read}, theirs, kinds, crowd)
		theirs.part()
	})
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

func TestKazooReadAndWriteLock(t *testing.T) {
	onEach(t, func(s *story) {
		ours, theirs := ourRW(s.Stage, rwlock.WithKazooNames()), s.kazoo()
		a, b := ours.party("a"), theirs.party("b")
		s.writersAndReaders(a, b)
		s.queues(a, b, ours.party("c"))
		s.queues(b, a, theirs.party("c"))
		s.downgrades(a, b, ours.party("c"), true)
		s.fights(ours, []string{write, read, downgrade, read}, theirs, []string{write}, crowd)
		// kazoo's readers starve while writers are queued: see peer.py.
		s.fights(ours, []string{read, read, write}, theirs, []string{read}, 1)
		theirs.part()
	})
}

// With patterns kazoo waits for our usual names. Without WithKazooNames our locks do not wait for
// kazoo's, but fail.
func TestKazooWithPatternsExcludesOneWayOnly(t *testing.T) {
	onEach(t, func(s *story) {
		t := s.T
		theirs := s.kazoo()
		b := theirs.party("b")
		// Otherwise the server deletes our directory whenever the directory is empty, even between two
		// steps of kazoo.
		_, err := s.Witness.Client().Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
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
			a.take(c.kind)
			if err := a.(*localParty).asked.Failed(); !strings.Contains(err.Error(), "in use by a lock of another kind") {
				t.Errorf("next to kazoo: %v", err)
			}
			b.give()
		}
		theirs.part()
	})
}
