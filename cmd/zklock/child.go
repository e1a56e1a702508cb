package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is the command, in its own process group, so that zklock can also end its subprocesses.
type child struct {
	pid   int // also the id of the group
	ended chan syscall.WaitStatus
	tty   *terminal // the terminal that was lent to it; owned by wait until ended yields
}

// starterName is argv[0] of a process of this program that will become the command.
const starterName = "zklock-start"

// The starter's files in addition to the standard ones.
const (
	starterGo   = 3 + iota // the starter reads a byte from it: it may become the command
	starterFail            // the starter writes the error number to it if it cannot
)

// startChild starts the command. The command must not start processes before the guard has the id
// of its group. So startChild starts a process of this program, calls known with its group, and, if
// known returns nil, sends the process a byte. Only then does the process become the command.
func startChild(argv, env []string, known func(group int) error) (*child, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, cannotRun(argv[0], err)
	}
	program, err := self()
	if err != nil {
		return nil, err
	}
	mayGo, release, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer release.Close()
	failure, failed, err := os.Pipe()
	if err != nil {
		mayGo.Close()
		return nil, err
	}
	defer failure.Close()
	tty := ourTerminal()
	if !tty.alone() {
		tty = nil
	}
	attr := &syscall.SysProcAttr{Setpgid: true}
	tty.lendTo(attr)
	diesWithUs(attr)
	p, err := os.StartProcess(program, append([]string{starterName, path}, argv...), &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, mayGo, failed}, Sys: attr,
	})
	mayGo.Close()
	failed.Close()
	if err != nil {
		tty.takeBack(0)
		return nil, fmt.Errorf("starting a process for the command: %w", err)
	}
	c := &child{pid: p.Pid, ended: make(chan syscall.WaitStatus, 1), tty: tty}
	if err := known(c.pid); err != nil {
		release.Close()
		_ = p.Kill() // ^Z may have stopped it: kill it
		_, _ = p.Wait()
		tty.takeBack(p.Pid)
		return nil, err
	}
	_, _ = release.Write([]byte{1})  // the starter may have been killed: wait reports that
	text, err := io.ReadAll(failure) // returns when the command has begun, or the starter has ended
	if number, e := strconv.Atoi(string(text)); err == nil && e == nil {
		_, _ = p.Wait()
		tty.takeBack(p.Pid) // the terminal was lent before the exec failed
		return nil, cannotRun(argv[0], &fs.PathError{Op: "exec", Path: path, Err: syscall.Errno(number)})
	}
	go c.wait()
	return c, nil
}

// starter is the main function of the starter. It returns only if it does not become the command.
func starter(path string, argv []string) int {
	syscall.CloseOnExec(starterGo)
	syscall.CloseOnExec(starterFail)
	if n, _ := os.NewFile(starterGo, "go").Read(make([]byte, 1)); n == 0 {
		return exitFailed // zklock has ended
	}
	err := syscall.Exec(path, argv, os.Environ())
	var number syscall.Errno
	if errors.As(err, &number) {
		fmt.Fprint(os.NewFile(starterFail, "failure"), int(number))
	}
	return exitNotRun
}

func cannotRun(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("PATH") == "" && !strings.Contains(name, "/") {
			return fail(exitNotFound, "%s: not found, as PATH is empty", name)
		}
		return fail(exitNotFound, "%s: not found", name)
	}
	return fail(exitNotRun, "%s: %w", name, errors.Unwrap(err))
}

// wait calls wait4 itself, because package os does not report ^Z: if the terminal stopped the
// command, a program that waits for zklock would not be notified. A stopped process should not hold
// a lock, so wait continues the command.
func (c *child) wait() {
	asks := false // the command needs the terminal, and is stopped
	var tty *terminal
	for {
		options := syscall.WUNTRACED
		if asks { // no signal reports that zklock is in the foreground: for the shell it is not stopped
			if tty == nil {
				tty = askedFor()
			}
			if tty.ours() {
				tty.lend(c.pid)
				c.tty, asks = tty, false
				c.signal(syscall.SIGCONT)
				continue
			}
			time.Sleep(50 * time.Millisecond) // so short that the person who types fg does not notice
			options |= syscall.WNOHANG
		}
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case err == syscall.EINTR, err == nil && pid != c.pid:
		case err != nil: // cannot happen: it is our child
			c.ended <- syscall.WaitStatus(exitFailed << 8)
			return
		case !status.Stopped():
			c.ended <- status
			return
		case status.StopSignal() == syscall.SIGTSTP:
			c.signal(syscall.SIGCONT)
		case status.StopSignal() == syscall.SIGTTIN, status.StopSignal() == syscall.SIGTTOU:
			asks = true
		}
	}
}

// signal sends a signal to the whole group.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

// gone reports whether no process of the group is left. zklock must wait for the orphans among
// them, see adoptOrphans; on other systems init does.
func (c *child) gone() bool {
	for {
		pid, err := syscall.Wait4(-c.pid, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && pid <= 0 {
			break
		}
	}
	return syscall.Kill(-c.pid, 0) == syscall.ESRCH
}

// code returns the exit code that a shell reports for this status.
func code(status syscall.WaitStatus) int {
	if status.Signaled() {
		return killedBy(status.Signal())
	}
	return status.ExitStatus()
}
