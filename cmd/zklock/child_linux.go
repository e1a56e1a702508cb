package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, also when its file was replaced meanwhile.
func self() (string, error) { return "/proc/self/exe", nil }

// diesWithUs has the system kill the command when zklock dies, at the same instant. Only the
// command itself: what it starts is the guard's.
func diesWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptOrphans makes zklock the parent of processes of the command whose own has gone, so that it
// can bury them: in many containers no other process does, and a group with a dead member looks
// alive.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
