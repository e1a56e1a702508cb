package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// slowDisk returns the environment of a server in which each flush of the disk takes longer. A
// preloaded library delays the system calls; the server is unchanged.
func slowDisk(t *testing.T, longer time.Duration) (env []string) {
	t.Helper()
	if longer == 0 {
		return nil
	}
	library := filepath.Join(t.TempDir(), "slow.so")
	if out, err := exec.Command(compiler(), "-O2", "-shared", "-fPIC", "-o", library, "disk/slow.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("a slower disk needs a C compiler: %v\n%s", err, out)
	}
	return []string{"LD_PRELOAD=" + library, fmt.Sprintf("DISK_NANOSECONDS=%d", longer.Nanoseconds())}
}

// compiler returns the C compiler that the race detector also needs.
func compiler() string {
	for _, name := range []string{os.Getenv("CC"), "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return "cc"
}

// Without this test the tables could show the fast disk unnoticed.
func TestADiskThatTakesItsTime(t *testing.T) {
	const longer = 50 * time.Millisecond
	realzk.Installed(t) // before searching a compiler
	server := realzk.Standalone(t, realzk.Options{ForceSync: true, Env: slowDisk(t, longer)})
	conn := realzk.Connect(t, 10*time.Second, server.Addr())
	for range 5 {
		began := time.Now()
		if _, err := conn.Set("/", nil, -1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < longer {
			t.Errorf("a write takes %v, and a flush %v", took, longer)
		}
	}
}
