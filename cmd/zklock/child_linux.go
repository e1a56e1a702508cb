package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// self returns this program, even if its file was replaced meanwhile.
func self() (string, error) { return "/proc/self/exe", nil }

// diesWithUs makes the system kill the command at the instant when zklock dies. It covers only the
// command itself; the guard ends the processes that the command starts.
func diesWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// running reports whether a process of the group can run. After zklock's death another process must
// wait for the group's zombies, and in many containers none does.
func running(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return false
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	zombies := 0
	for _, name := range stats {
		stat, _ := os.ReadFile(name)
		text := string(stat[strings.LastIndexByte(string(stat), ')')+1:]) // the name may have spaces
		var state string
		var parent, of int
		if _, err := fmt.Sscan(text, &state, &parent, &of); err != nil || of != group {
			continue
		}
		if state != "Z" && state != "X" {
			return true
		}
		zombies++
	}
	return zombies == 0 // then /proc hides the group's processes
}

// adoptOrphans makes zklock the parent of the command's processes whose parent has ended, so that
// zklock can wait for them. In many containers no other process does, and a group with a zombie
// looks alive.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
