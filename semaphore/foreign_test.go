package semaphore

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

func TestForeignMembersAreKnown(t *testing.T) {
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for name, want := range map[string]string{
		"_c_" + id + "-lease-0000000003": "Curator", "076e6e61c0cde965b0859f41aaeb74ff": "kazoo",
	} {
		if whose := owner(name); !strings.Contains(whose, want) {
			t.Errorf("%s: %q", name, whose)
		}
	}
	for _, name := range []string{
		"queue", "leases", "locks", "README", "lease-0000000003", "_c_" + id + "-permit-0000000003",
		"_c_" + id + "-lock-0000000003", "076e6e61c0cde965b0859f41aaeb74ff__lock__0000000001", "076e6e61",
		"the number of nodes that we know",
	} {
		if whose := owner(name); whose != "" {
			t.Errorf("%s: %s", name, whose)
		}
	}
}

// Both directories of Curator's show its semaphore; one may be another program's.
func TestCuratorsDirectoriesAreKnown(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for _, c := range []struct {
			dirs []string
			want error
		}{
			{nil, nil}, {[]string{"leases"}, nil}, {[]string{"locks"}, nil}, {[]string{"locks", "leases"}, ErrMismatch},
		} {
			path := test.Path(s)
			for _, p := range append([]string{""}, c.dirs...) {
				_, err := s.Witness.Create(strings.TrimSuffix(path+"/"+p, "/"), nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
				s.Must(err)
			}
			h, err := New(locks.On(s.Witness), path, 2).Acquire(s.Ctx, 1)
			s.Is(err, c.want)
			if err == nil {
				s.Must(h.Release(s.Ctx))
			}
		}
	})
}

// A member that goes while it is looked at, and one that is no member, tell nothing of the others.
func TestEveryMemberOfAForeignSemaphoreCounts(t *testing.T) {
	const one, other = "/076e6e61c0cde965b0859f41aaeb74ff", "/f76e6e61c0cde965b0859f41aaeb74ff"
	const id = "/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lease-"
	for name, c := range map[string]struct {
		dir, gone, member string
		persistent        bool
	}{
		"the first goes":                      {"", one, other, false},
		"the second goes":                     {"", other, one, false},
		"the first is a directory":            {"", one, other, true},
		"the second is a directory":           {"", other, one, true},
		"the first of Curator's leases goes":  {"/leases", id + "0000000003", id + "0000000004", false},
		"the second of Curator's leases goes": {"/leases", id + "0000000004", id + "0000000003", false},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "/queue", func(s *contract.Stage) {
				conn, through := s.Behind()
				add := func(path, data string, flags int32) {
					_, err := s.Witness.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
					s.Must(err)
				}
				data := "4" // kazoo's semaphore stores its number
				if c.dir != "" {
					data = ""
				}
				add(s.Path, data, zk.FlagPersistent)
				if c.dir != "" {
					add(s.Path+c.dir, "", zk.FlagPersistent)
				}
				paths := []string{s.Path + c.dir + c.gone, s.Path + c.dir + c.member}
				if c.gone > c.member {
					slices.Reverse(paths)
				}
				for _, path := range paths {
					flags := int32(zk.FlagEphemeral)
					if c.persistent && path == s.Path+c.dir+c.gone {
						flags = zk.FlagPersistent
					}
					add(path, "", flags)
				}
				listings := 1
				if c.dir != "" {
					listings = 2 // that of the path, and that of the directory below
				}
				var listed *proxy.Fault
				if !c.persistent {
					listed = through.Nth(proxy.ListOp, listings, proxy.HoldReply)
				}
				sem := New(locks.On(conn), s.Path, 4)
				a := contract.Begin(s, s.Ctx, func(ctx context.Context) (*zklocks.Hold, error) { return sem.Acquire(ctx, 1) })
				if listed != nil {
					<-listed.Fired()
					s.Must(s.Witness.Delete(s.Path+c.dir+c.gone, -1))
					listed.Release()
				}
				s.Is(a.Failed(), ErrMismatch)
				if there, _, err := s.Witness.Exists(s.Path + "/queue"); there || err != nil {
					s.Errorf("the queue directory was made, %v", err)
				}
				if now, _, err := s.Witness.Get(s.Path); err != nil || string(now) != data {
					s.Errorf("it has %q, not %q any more: %v", now, data, err)
				}
			})
		})
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
// its own number there, and refuses clients that come with another one. Queue does not say that
// there is no holder.
func TestResizeAndQueueRefuseTheSemaphoreOfAnother(t *testing.T) {
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
			if data == "" { // the directories alone are no holder
				_, err = New(locks.On(s.Witness), path, 0).Queue(s.Ctx)
				s.Must(err)
				const lease = "/leases/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lease-0000000003"
				_, err = s.Witness.Create(path+lease, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				s.Must(err)
				_, err = New(locks.On(s.Witness), path, 0).Queue(s.Ctx)
				s.Is(err, ErrMismatch)
				s.Must(s.Witness.Delete(path+lease, -1))
			} else {
				_, err = New(locks.On(s.Witness), path, 0).Queue(s.Ctx)
				s.Is(err, ErrMismatch)
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
