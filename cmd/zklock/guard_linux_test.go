package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// guardOf returns the guard among the children of a zklock.
func guardOf(t *testing.T, zklock string) int {
	t.Helper()
	n := findGuard(t, zklock)
	if n == 0 {
		t.Fatalf("zklock %s has no guard", zklock)
	}
	return n
}

// findGuard returns the guard, or 0 if there is none.
func findGuard(t *testing.T, zklock string) int {
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

// overtakenWhileStopped asserts that the guard alone ends the command before the next hold.
func overtakenWhileStopped(t *testing.T, c *realzk.Child, path string, group []int) {
	t.Helper()
	granted := next(t, path, realzk.Some(t)[0], group)
	inLine(t, path, 2)
	dead := diedAt(group)
	c.Pause()
	overtaken(t, dead, granted)
	c.Resume()
	ends(t, c, exitLost)
}

// The system may kill the guard alone, for lack of memory.
func TestAKilledGuardIsReplaced(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	c := start(t, "", "run", "-session-timeout", session.String(), path, "--", "sh", "-c", "echo parent $PPID; "+stubborn)
	zklock := c.Hears("parent")
	group := pids(t, c)
	killed := guardOf(t, zklock)
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	test.Eventually(t, soon, "another guard", func() bool {
		other := findGuard(t, zklock)
		return other != 0 && other != killed
	})
	overtakenWhileStopped(t, c, path, group)
}

// A command may run for months, and start processes that outlive their parents. zklock becomes
// their parent, and must wait for them.
func TestNoDeadProcessesPileUp(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	c := start(t, "", "run", path, "--", "sh", "-c", // sleeps until its orphans have ended
		"echo parent $PPID; for i in 1 2 3 4 5; do (sleep 0.01 &); done; sleep 0.5; echo done; read line")
	zklock := c.Hears("parent")
	c.Hears("done")
	var dead []string
	test.Eventually(t, soon, "zklock has waited for them", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", zklock, zklock))
		if err != nil {
			t.Fatal(err)
		}
		dead = nil
		for pid := range strings.FieldsSeq(string(children)) {
			if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
				dead = append(dead, pid)
			}
		}
		return len(dead) == 0
	})
	finish(t, c)
	free(t, path)
}

// A service manager sends SIGTERM to each process of a service, also to the guard.
func TestTheGuardOutlivesWhatEndsTheCommand(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	c := start(t, "", "run", "-session-timeout", session.String(), path, "--", "sh", "-c", "echo parent $PPID; "+stubborn)
	zklock := c.Hears("parent")
	group := pids(t, c)
	guard := guardOf(t, zklock)
	test.Eventually(t, soon, "the guard ignores what it has been told to", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
		_, ignored, _ := strings.Cut(string(status), "SigIgn:\t")
		ignored, _, _ = strings.Cut(ignored, "\n")
		mask, bad := strconv.ParseUint(ignored, 16, 64)
		return err == nil && bad == nil && mask&(1<<(syscall.SIGTERM-1)) != 0
	})
	for _, sig := range passedOn {
		if err := syscall.Kill(guard, sig.(syscall.Signal)); err != nil {
			t.Fatal(err)
		}
	}
	overtakenWhileStopped(t, c, path, group)
}

// sleeps starts a command that runs until it is killed, and a guard for it.
func sleeps(t *testing.T) (g *watcher, ended <-chan struct{}) {
	t.Helper()
	command := exec.Command("sleep", "1000")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { _ = command.Wait(); close(over) }()
	t.Cleanup(func() { _ = command.Process.Kill(); <-over })
	g, err := startGuard(handover{})
	if err != nil {
		t.Fatal(err)
	}
	g.guards(command.Process.Pid)
	return g, over
}

// On a busy machine the guard starts late, and so reads late how much longer the command may run.
// The wall clock, by which it knows that, may be set back.
func TestAGuardThatReadsLateEndsTheCommandInTime(t *testing.T) {
	t.Parallel()
	for left, age := range map[time.Duration]time.Duration{time.Hour: time.Hour, time.Millisecond: -time.Hour} {
		guard, ended := sleeps(t)
		if err := guard.tell("left %d %d", left, time.Now().Add(-age).UnixNano()); err != nil {
			t.Fatal(err)
		}
		test.Within(t, soon, "the command is dead", func() { <-ended })
		guard.done()
	}
}

// A line that the guard reads late may be out of date: zklock has allowed more time since.
func TestAGuardThatReadsLateGoesByTheLastLine(t *testing.T) {
	t.Parallel()
	guard, ended := sleeps(t)
	// Both lines are in the pipe at once.
	if err := guard.tell("left 1 1\nleft %d %d", time.Hour, time.Now().UnixNano()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // real: time for a guard that uses the first line to kill the command
	guard.done()
	select {
	case <-ended:
		t.Error("the guard has ended the command")
	default:
	}
}
