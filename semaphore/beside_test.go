package semaphore_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// A semaphore stores no number at a path where a lock of another kind, or of another library, has a
// node. The semaphore stores its number once that node is gone.
func TestTheFirstNumberIsNotStoredNextToAnotherLock(t *testing.T) {
	const id, uuid = "076e6e61c0cde965b0859f41aaeb74ff", "_c_076e6e61-c0cd-e965-b085-9f41aaeb74ff-"
	for name, prefix := range map[string]string{
		"a writer":                        uuid + "write-",
		"a reader":                        uuid + "read-",
		"reentrant, and Curator's mutex":  uuid + "lock-",
		"a leader of LeaderLatch's names": uuid + "latch-",
		"Curator's read/write lock":       uuid + "__WRIT__",
		"Curator's reader":                uuid + "__READ__",
		"kazoo's lock":                    id + "__lock__",
		"kazoo's reader":                  id + "__rlock__",
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "/queue", func(s *contract.Stage) {
				_, err := s.Witness.Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
				s.Must(err)
				theirs, err := s.Witness.Create(s.Path+"/"+prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				s.Must(err)
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
				if left := test.Children(s, s.Witness, s.Path); len(left) != 1 {
					s.Errorf("left %q", left)
				}
				s.Must(s.Witness.Delete(theirs, -1))
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
