package semaphore

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
)

func TestStrangersAreKnown(t *testing.T) {
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for _, children := range [][]string{
		{"locks", "leases"},
		{"queue", "leases", "locks"},
		{"_c_" + id + "-lease-0000000003"},
		{"queue", "076e6e61c0cde965b0859f41aaeb74ff"},
	} {
		if _, whose := stranger(children); whose == "" {
			t.Errorf("%q: nobody's", children)
		}
	}
	for _, children := range [][]string{
		nil, {"queue"}, {"leases"}, {"locks", "queue"}, {"README", "lease-0000000003"},
		{"_c_" + id + "-permit-0000000003", "_c_" + id + "-lock-0000000003"},
		{"076e6e61c0cde965b0859f41aaeb74ff__lock__0000000001"}, {"076e6e61"}, {"the number of nodes that we know"},
	} {
		if _, whose := stranger(children); whose != "" {
			t.Errorf("%q: %s", children, whose)
		}
	}
}

// A directory may have the name of one of kazoo's members; nobody holds by it.
func TestADirectoryIsNobodysPermit(t *testing.T) {
	conn := zktest.Connect(t, 10*time.Second)
	for flag, want := range map[int32]error{zk.FlagPersistent: nil, zk.FlagEphemeral: ErrMismatch} {
		path := zktest.Path(t)
		for _, p := range []string{path, path + "/076e6e61c0cde965b0859f41aaeb74ff"} {
			f := flag
			if p == path {
				f = zk.FlagPersistent
			}
			if _, err := conn.Create(p, nil, f, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
		h, err := New(conn, path, 2).Acquire(t.Context(), 1)
		if !errors.Is(err, want) {
			t.Errorf("flag %d: %v, want %v", flag, err, want)
		}
		if err == nil {
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
			zktest.AssertEmpty(t, conn, path+"/queue")
		}
		if err := conn.Delete(path+"/076e6e61c0cde965b0859f41aaeb74ff", -1); err != nil {
			t.Error(err)
		}
	}
}

// While nobody waits, only the leases are there.
func TestCuratorsLeasesAreKnownWithoutItsLocks(t *testing.T) {
	conn := zktest.Connect(t, 10*time.Second)
	path := zktest.Path(t)
	try := func(want error) {
		t.Helper()
		h, err := New(conn, path, 1).TryAcquire(t.Context(), 1)
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if h != nil {
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	for _, p := range []string{path, path + "/leases"} {
		if _, err := conn.Create(p, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	lease := path + "/leases/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lease-0000000003"
	if _, err := conn.Create(lease, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	try(ErrMismatch)
	if err := conn.Delete(lease, -1); err != nil {
		t.Fatal(err)
	}
	try(nil)
	zktest.AssertEmpty(t, conn, path+"/queue")
}
