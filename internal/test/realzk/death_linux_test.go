package realzk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
)

const childEnv = "ZKTEST_CHILD"

// A child process starts a server and is killed. The server is killed with it, and the next process
// removes its data.
func TestServerDiesWithItsProcess(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		s, err := Start(Options{})
		must(t, err)
		fmt.Println("server", s.PID(), s.Dir())
		must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	t.Parallel()
	Installed(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithItsProcess$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	child := StartProgram(t, cmd)
	var pid int
	var dir string
	_, err := fmt.Sscan(child.Hears("server"), &pid, &dir)
	must(t, err)
	child.Ends()
	test.Eventually(t, 10*time.Second, "the server is gone", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || isZombie(pid)
	})
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(dir, old, old))
	Standalone(t, Options{})
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data of the killed process is still there: %v", err)
	}
}

// isZombie reports whether the process is dead and was not waited for.
func isZombie(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(status), "State:\tZ")
}
