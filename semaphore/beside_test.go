package semaphore_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// A semaphore stores no number at a path where a lock of another kind has a node. The semaphore
// stores its number once that node is gone.
func TestTheFirstNumberIsNotStoredNextToAnotherLock(t *testing.T) {
	const id = "076e6e61c0cde965b0859f41aaeb74ff"
	// A node with this name stands for a lock of another library.
	node := func(name string) func(s *contract.Stage, conn *zklocks.Conn) func() {
		return func(s *contract.Stage, _ *zklocks.Conn) func() {
			_, err := s.Witness.Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
			s.Must(err)
			path, err := s.Witness.Create(s.Path+"/"+name, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			s.Must(err)
			return func() { s.Must(s.Witness.Delete(path, -1)) }
		}
	}
	held := func(s *contract.Stage, h *zklocks.Hold, err error) func() {
		s.Helper()
		s.Must(err)
		return func() { s.Must(h.Release(s.Ctx)) }
	}
	for name, lock := range map[string]func(s *contract.Stage, conn *zklocks.Conn) func(){
		"a writer": func(s *contract.Stage, conn *zklocks.Conn) func() {
			h, err := rwlock.New(conn, s.Path).Lock(s.Ctx)
			return held(s, h, err)
		},
		"a reader": func(s *contract.Stage, conn *zklocks.Conn) func() {
			h, err := rwlock.New(conn, s.Path).RLock(s.Ctx)
			return held(s, h, err)
		},
		"reentrant": func(s *contract.Stage, conn *zklocks.Conn) func() {
			h, err := reentrant.New(conn, s.Path).Lock(s.Ctx)
			return held(s, h, err)
		},
		"a leader of LeaderLatch's names": func(s *contract.Stage, conn *zklocks.Conn) func() {
			h, err := leader.New(conn, s.Path, leader.WithLatchNames()).Campaign(s.Ctx)
			return held(s, h, err)
		},
		"Curator's mutex":           node("_c_" + id + "-lock-"),
		"Curator's read/write lock": node("_c_" + id + "-__WRIT__"),
		"Curator's reader":          node("_c_" + id + "-__READ__"),
		"kazoo's lock":              node(id + "__lock__"),
		"kazoo's reader":            node(id + "__rlock__"),
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "/queue", func(s *contract.Stage) {
				release := lock(s, locks.On(s.Connect()))
				before := test.Children(s, s.Witness, s.Path)
				sem := newClient(s, 3)
				for range 2 {
					_, err := sem.Acquire(s.Ctx, 1)
					s.Is(err, semaphore.ErrMismatch)
					_, err = sem.TryAcquire(s.Ctx, 1)
					s.Is(err, semaphore.ErrMismatch)
					s.Is(sem.Resize(s.Ctx, 4), semaphore.ErrMismatch)
				}
				if got := stored(s); got != "" {
					s.Errorf("stored %q", got)
				}
				if after := test.Children(s, s.Witness, s.Path); len(before) != 1 || len(after) != 1 {
					s.Errorf("left %q, where %q stood before", after, before)
				}
				release()
				h := sem.acquire(3)
				if got := stored(s); got != "3" {
					s.Errorf("stored %q after the release", got)
				}
				s.Must(h.Release(s.Ctx))
				s.Empty()
			})
		})
	}
}

// A lock empties the node of a semaphore whose permits are held. No other number can be stored
// while the lock is held.
func TestALockOnTheSemaphoresPathChangesNoNumber(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		sem := newClient(s, 2)
		permits := sem.acquire(2)
		lock, err := rwlock.New(locks.On(s.Connect()), s.Path).Lock(s.Ctx)
		s.Must(err)
		_, err = newClient(s, 3).TryAcquire(s.Ctx, 1)
		s.Is(err, semaphore.ErrMismatch)
		if got := stored(s); got != "" {
			s.Errorf("stored %q", got)
		}
		s.Must(lock.Release(s.Ctx))
		s.Must(permits.Release(s.Ctx))
		s.Empty()
	})
}
