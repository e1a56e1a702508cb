package semaphore

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
)

func TestForeignQueuesAreKnown(t *testing.T) {
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for _, children := range [][]string{
		{"locks", "leases"},
		{"queue", "leases", "locks"},
		{"_c_" + id + "-lease-0000000003"},
		{"queue", "076e6e61c0cde965b0859f41aaeb74ff"},
	} {
		if _, whose := foreignSemaphore(children); whose == "" {
			t.Errorf("%q: not recognized", children)
		}
	}
	for _, children := range [][]string{
		nil, {"queue"}, {"leases"}, {"locks", "queue"}, {"README", "lease-0000000003"},
		{"_c_" + id + "-permit-0000000003", "_c_" + id + "-lock-0000000003"},
		{"076e6e61c0cde965b0859f41aaeb74ff__lock__0000000001"}, {"076e6e61"}, {"the number of nodes that we know"},
	} {
		if _, whose := foreignSemaphore(children); whose != "" {
			t.Errorf("%q: %s", children, whose)
		}
	}
}

// A directory may have the name of one of kazoo's nodes; it holds no permit.
func TestADirectoryIsNoPermit(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for flag, want := range map[int32]error{zk.FlagPersistent: nil, zk.FlagEphemeral: ErrMismatch} {
			path := test.Path(s)
			for _, p := range []string{path, path + "/076e6e61c0cde965b0859f41aaeb74ff"} {
				f := flag
				if p == path {
					f = zk.FlagPersistent
				}
				_, err := s.Witness.Create(p, nil, f, zk.WorldACL(zk.PermAll))
				s.Must(err)
			}
			h, err := New(locks.On(s.Witness), path, 2).Acquire(s.Ctx, 1)
			s.Is(err, want)
			if err == nil {
				s.Must(h.Release(s.Ctx))
				test.AssertEmpty(s, s.Witness, path+"/queue")
			}
			s.Must(s.Witness.Delete(path+"/076e6e61c0cde965b0859f41aaeb74ff", -1))
		}
	})
}

// While no client waits, only the leases exist.
func TestCuratorsLeasesAreKnownWithoutItsLocks(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		try := func(want error) {
			s.Helper()
			h, err := New(locks.On(s.Witness), s.Path, 1).TryAcquire(s.Ctx, 1)
			s.Is(err, want)
			if h != nil {
				s.Must(h.Release(s.Ctx))
			}
		}
		for _, p := range []string{s.Path, s.Path + "/leases"} {
			_, err := s.Witness.Create(p, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
			s.Must(err)
		}
		lease := s.Path + "/leases/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lease-0000000003"
		_, err := s.Witness.Create(lease, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		s.Must(err)
		try(ErrMismatch)
		s.Must(s.Witness.Delete(lease, -1))
		try(nil)
		s.Empty()
	})
}

// Resize writes nothing into a node that a semaphore of another library uses. A kazoo semaphore has
// its own number there, and refuses clients that come with another one.
func TestResizeRefusesTheSemaphoreOfAnother(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for data, children := range map[string]map[string]int32{
			"":  {"/leases": zk.FlagPersistent, "/locks": zk.FlagPersistent},
			"4": {"/076e6e61c0cde965b0859f41aaeb74ff": zk.FlagEphemeral},
		} {
			path := test.Path(s)
			_, err := s.Witness.Create(path, []byte(data), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
			s.Must(err)
			for child, flag := range children {
				_, err := s.Witness.Create(path+child, nil, flag, zk.WorldACL(zk.PermAll))
				s.Must(err)
			}
			for _, permits := range []int{4, 5} {
				s.Is(New(locks.On(s.Witness), path, permits).Resize(s.Ctx, permits), ErrMismatch)
			}
			if now, _, err := s.Witness.Get(path); err != nil || string(now) != data {
				s.Errorf("it has %q, not %q any more: %v", now, data, err)
			}
			for child := range children {
				s.Must(s.Witness.Delete(path+child, -1))
			}
			s.Must(s.Witness.Delete(path, -1))
		}
	})
}
