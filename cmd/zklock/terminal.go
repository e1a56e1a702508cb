package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is one whose foreground the command needs: it has a group of its own, which must be in
// the foreground to read from the terminal, and to get the signals of ^C and ^\ directly.
type terminal struct{ fd int }

// ourTerminal is that in whose foreground zklock is; nil if there is none.
//
// Another program of the same job may need the terminal, as in zklock run ... | less. So where
// standard output leads elsewhere it is lent only when the command asks for it, see child.wait.
func ourTerminal() *terminal {
	if t := (&terminal{int(os.Stdin.Fd())}); t.ours() {
		return t
	}
	return nil
}

// askedFor is the terminal that stops a command which reads it from the background. Standard input
// may lead elsewhere, as in ... | zklock run ... sudo.
func askedFor() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd}
}

// ours reports whether zklock's group is in the foreground.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && front == syscall.Getpgrp()
}

// alone reports whether standard output is the terminal, too: no pipe leads to another program.
func (t *terminal) alone() bool { return t != nil && (&terminal{int(os.Stdout.Fd())}).ours() }

// lend puts a group in the foreground in place of ours, which is there.
func (t *terminal) lend(group int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) }

func (t *terminal) lendTo(attr *syscall.SysProcAttr) {
	if t != nil {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// takeBack is for the program that continues after zklock in the same group: a script. If that has
// ended before, the shell has taken the terminal from the group that zklock has lent it to.
func (t *terminal) takeBack(lent int) {
	if t == nil {
		return
	}
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err == nil && front != lent && !isOurs(front) && syscall.Kill(-front, 0) != syscall.ESRCH {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // sent to a process in the background that does this
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, syscall.Getpgrp())
}

// isOurs reports whether a process of the group is a child of zklock: a job of an interactive shell
// that was the command, see adoptOrphans.
func isOurs(group int) bool {
	if group <= 1 { // a shell that is the first process of its machine; for Wait4 it means all children
		return false
	}
	_, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
	return err != syscall.ECHILD
}
