package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// guardName is argv[0] of a process of this program that guards a command.
const guardName = "zklock-guard"

// watcher is zklock's end of the pipe to the guard, a second process that kills the command's group
// when zklock cannot, because zklock was killed or stopped. The guard reads the id of the group,
// and then, repeatedly, lines that say how much longer the group may run, and when the line was
// written. The word "done" ends the guard. If the pipe ends without that word, zklock is dead.
type watcher struct {
	pipe  *os.File
	cmd   *exec.Cmd
	group int // the command's group; 0 until there is one
}

// startGuard starts the guard. It is called before the command is started, so that the command
// never runs without a guard.
func startGuard() (*watcher, error) { return startGuardOf(0, time.Time{}) }

func startGuardOf(group int, until time.Time) (*watcher, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	w := &watcher{pipe: pipe}
	if group != 0 { // write it before the guard starts: if zklock is stopped right after, it could not write it
		w.guards(group)
		w.allow(until)
	}
	w.cmd = &exec.Cmd{Path: path, Args: []string{guardName}, Stdin: in, Stderr: os.Stderr}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal that ends zklock's group must not end the guard
	if err := w.cmd.Start(); err != nil {
		pipe.Close()
		return nil, fmt.Errorf("starting a second process to watch over the command: %w", err)
	}
	return w, nil
}

func (w *watcher) tell(format string, args ...any) error {
	_ = w.pipe.SetWriteDeadline(time.Now().Add(time.Second)) // a stopped guard must not block zklock
	_, err := fmt.Fprintf(w.pipe, format+"\n", args...)
	return err
}

func (w *watcher) guards(group int) {
	w.group = group
	_ = w.tell("group %d", group)
}

// allow lets the group run until the given time. If the guard was killed, allow starts another.
func (w *watcher) allow(until time.Time) {
	now := time.Now() // read once: the guard subtracts the time that passes from here on
	if err := w.tell("left %d %d", int64(until.Sub(now)), now.UnixNano()); !errors.Is(err, syscall.EPIPE) {
		return
	}
	another, err := startGuardOf(w.group, until)
	if err != nil {
		return // the next call of allow tries again
	}
	w.done()
	*w = *another
}

func (w *watcher) done() {
	_ = w.tell("done")
	w.pipe.Close()
	stopped := time.AfterFunc(time.Second, func() { _ = w.cmd.Process.Kill() })
	defer stopped.Stop()
	_ = w.cmd.Wait()
}

// guard is the main function of the guard.
func guard(in io.Reader) int {
	signal.Ignore(passedOn...) // a service manager sends these signals to all processes, and the command may take its time
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "left ") && r.Buffered() > 0 {
				continue // the next line is newer
			}
			lines <- line
		}
	}()
	group := 0
	end := func() {
		if group != 0 {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
	}
	late := time.NewTimer(time.Hour)
	late.Stop()
	for {
		select {
		case <-late.C:
			end()
		case line, ok := <-lines:
			if !ok {
				end()
				return 1
			}
			word, number, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch word {
			case "group":
				_, _ = fmt.Sscan(number, &group)
			case "left":
				var left, asOf int64
				_, _ = fmt.Sscan(number, &left, &asOf)
				// A guard that was just started on a busy machine reads the line late, so it
				// subtracts the age of the line. The wall clock of both processes may be set back,
				// so it may only shorten the time.
				late.Reset(time.Duration(left - max(0, time.Now().UnixNano()-asOf)))
			case "done":
				return 0
			}
		}
	}
}
