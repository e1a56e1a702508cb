package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// child is the command, in a process group of its own, so that what it starts
// can be ended along with it.
type child struct {
	pid   int // also the number of the group
	ended chan syscall.WaitStatus
	tty   *terminal
}

func startChild(argv, env []string) (*child, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, cannotRun(argv[0], err)
	}
	tty := ourTerminal()
	attr := &syscall.SysProcAttr{Setpgid: true}
	tty.lendTo(attr)
	diesWithUs(attr)
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr,
	})
	if err != nil {
		tty.takeBack() // it was lent before the program was found not to run
		return nil, cannotRun(argv[0], err)
	}
	c := &child{pid: p.Pid, ended: make(chan syscall.WaitStatus, 1), tty: tty}
	go c.wait()
	return c, nil
}

func cannotRun(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fail(exitNotFound, "%s: not found", name)
	}
	return fail(exitNotRun, "%s: %w", name, errors.Unwrap(err))
}

// wait is not that of package os, for it must also hear of ^Z: the terminal has
// stopped the command, and nobody who waits for zklock would be told. A lock
// should not be held by somebody who sleeps, so the command goes on.
func (c *child) wait() {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // cannot be: it is ours
			c.ended <- syscall.WaitStatus(exitFailed << 8)
			return
		case !status.Stopped():
			c.ended <- status
			return
		case status.StopSignal() == syscall.SIGTSTP:
			c.signal(syscall.SIGCONT)
		}
	}
}

// signal goes to the whole group.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

// gone reports whether nobody of the group is left. Those that have lost their
// parent are ours to bury, see adoptOrphans; elsewhere the system does it.
func (c *child) gone() bool {
	for {
		pid, err := syscall.Wait4(-c.pid, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && pid <= 0 {
			break
		}
	}
	return syscall.Kill(-c.pid, 0) == syscall.ESRCH
}

// code is what a shell would say of the command's end.
func code(status syscall.WaitStatus) int {
	if status.Signaled() {
		return killedBy(status.Signal())
	}
	return status.ExitStatus()
}
