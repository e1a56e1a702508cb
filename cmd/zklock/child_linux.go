package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// self returns this program, even if its file was replaced meanwhile.
func self() (string, error) { return "/proc/self/exe", nil }

// diesWithUs makes the system kill the command at the instant when zklock dies. It covers only the
// command itself; the guard ends the processes that the command starts.
func diesWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptOrphans makes zklock the parent of the command's processes whose parent has ended, so that
// zklock can wait for them. In many containers no other process does, and a group with a zombie
// looks alive.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
