package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
)

// guardOf finds the guard among the children of a zklock.
func guardOf(t *testing.T, zklock string) int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", zklock, zklock))
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(children)) {
		args, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err == nil && strings.HasPrefix(string(args), guardName) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no guard among %s", children)
	return 0
}

func TestAStoppedGuardDoesNotStopUs(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	c := start(t, "", "run", path, "--", "sh", "-c", "echo parent $PPID; read line")
	guard := guardOf(t, c.Hears("parent"))
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	finish(t, c)
	free(t, path)
}
