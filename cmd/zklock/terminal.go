package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is a terminal whose foreground the command needs. The command's group must be in the
// foreground to read from the terminal, and to receive the signals of ^C and ^\ directly.
type terminal struct{ fd int }

// ourTerminal returns the terminal in whose foreground zklock is, or nil.
//
// Another program of the job may need the terminal, as in zklock run ... | less. So if standard
// output is not the terminal, it is lent only when the command reads from it, see child.wait.
func ourTerminal() *terminal {
	if t := (&terminal{int(os.Stdin.Fd())}); t.ours() {
		return t
	}
	return nil
}

// askedFor returns the terminal that has stopped a command that read from it in the background.
// Standard input may be something else, as in ... | zklock run ... sudo.
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

// alone reports whether standard output is the terminal, too, so that no program follows in a pipe.
func (t *terminal) alone() bool { return t != nil && (&terminal{int(os.Stdout.Fd())}).ours() }

// lend puts a group in the foreground in place of ours.
func (t *terminal) lend(group int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) }

func (t *terminal) lendTo(attr *syscall.SysProcAttr) {
	if t != nil {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// takeBack puts zklock's group in the foreground again, for the script that continues after zklock
// in the same group. If that script has ended, the shell has taken the terminal from the group to
// which zklock had lent it, and keeps it.
func (t *terminal) takeBack(lent int) {
	if t == nil {
		return
	}
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err == nil && front != lent && !isOurs(front) && syscall.Kill(-front, 0) != syscall.ESRCH {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // sent to a background process that calls this
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, syscall.Getpgrp())
}

// isOurs reports whether a process of the group is a child of zklock: a job of an interactive shell
// that was the command, see adoptOrphans.
func isOurs(group int) bool {
	if group <= 1 { // the group of init; for Wait4 it means all children
		return false
	}
	_, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
	return err != syscall.ECHILD
}
