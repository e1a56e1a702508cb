package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// asZklock in the environment makes the test binary run as zklock.
const asZklock = "ZKLOCK_UNDER_TEST"

func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == guardName:
		os.Exit(guard(os.Stdin, os.Args[1:]))
	case os.Args[0] == starterName:
		os.Exit(starter(os.Args[1], os.Args[2:]))
	case os.Getenv(asZklock) != "":
		os.Unsetenv(asZklock)
		os.Exit(zklock(os.Args[1:]))
	}
	contract.Main(m)
}

// start runs zklock as a process. servers "" means the shared server.
func start(t *testing.T, servers string, args ...string) *realzk.Child {
	t.Helper()
	return realzk.StartProgram(t, zklockCommand(t, servers, args...))
}

func zklockCommand(t *testing.T, servers string, args ...string) *exec.Cmd {
	t.Helper()
	if servers == "" {
		servers = strings.Join(realzk.Some(t), ",")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asZklock+"=1", "ZK_SERVERS="+servers, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.WaitDelay = 5 * time.Second // a command that outlives zklock holds stderr open
	return cmd
}

// prints runs zklock to its end with env added to its environment, and returns its exit code and
// all output.
func prints(t *testing.T, servers string, env []string, args ...string) (code int, text string) {
	t.Helper()
	cmd := zklockCommand(t, servers, args...)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// ends asserts the exit code and the messages of zklock.
func ends(t *testing.T, c *realzk.Child, code int, words ...string) {
	t.Helper()
	got, cries := c.Ends()
	if got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, cries)
	}
	for _, w := range words {
		if !strings.Contains(cries, w) {
			t.Errorf("it does not say %q:\n%s", w, cries)
		}
	}
}

const (
	quiet = 30 * time.Second // a session that does not expire on a busy machine
	soon  = 30 * time.Second
)
