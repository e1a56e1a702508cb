package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that zklock is in the foreground of; nil if there is none. The command has a
// group of its own, which must be in front to read what is typed, and to get the signals of ^C and
// ^\ first hand.
type terminal struct{ fd int }

func ourTerminal() *terminal {
	fd := int(os.Stdin.Fd())
	front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || front != syscall.Getpgrp() {
		return nil
	}
	return &terminal{fd}
}

func (t *terminal) lendTo(attr *syscall.SysProcAttr) {
	if t != nil {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// takeBack is for the program that comes after zklock in the same group: a script that goes on.
func (t *terminal) takeBack() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU) // which a process that is not in front gets for it
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, syscall.Getpgrp())
	}
}
