package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/zklocks/zklocks/internal/wire"
)

// guardName is argv[0] of a process of this program that guards a command.
const guardName = "zklock-guard"

// watcher is zklock's end of the pipe to the guard, a second process that kills the command's group
// when zklock cannot, because zklock was killed or stopped. The guard reads the handover, the
// id of the group, and then, repeatedly, lines that say how much longer the group may run, and when
// the line was written. The word "done" ends the guard. If the pipe ends without that word, zklock
// is dead. The guard then also ends the session, so that the lock is free as soon as the group is
// dead.
type watcher struct {
	handover
	pipe  *os.File
	cmd   *exec.Cmd
	group int // the command's group; 0 until there is one
}

// handover is what the guard needs to free the lock of a dead zklock.
type handover struct {
	Session *wire.Session     // with which zklock holds the lock; nil in some tests
	Timeout time.Duration     // after which that session is over
	Files   map[string][]byte // the content of files with secrets, which may be gone

	// The session file, or nil. The guard inherits its lock: zklock reap, and the next process with
	// the file, wait until the group is dead, too.
	locked *os.File
}

// startGuard starts the guard. It is called before the command is started, with group 0, so that
// the command never runs without a guard.
func startGuard(given handover, group int, until time.Time) (*watcher, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	w := &watcher{handover: given, pipe: pipe}
	text, _ := json.Marshal(given)
	_ = w.tell("handover %s", text)
	if group != 0 { // write it before the guard starts: if zklock is stopped right after, it could not write it
		w.guards(group)
		w.allow(until)
	}
	w.cmd = &exec.Cmd{Path: path, Args: append([]string{guardName}, os.Args[1:]...), Stdin: in, Stderr: os.Stderr}
	if given.locked != nil {
		w.cmd.ExtraFiles = []*os.File{given.locked}
	}
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
	another, err := startGuard(w.handover, w.group, until)
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

// guard is the main function of the guard. It has zklock's arguments.
func guard(in io.Reader, args []string) int {
	signal.Ignore(passedOn...) // a service manager sends these signals to all processes, and the command may take its time
	return obey(in, args, running)
}

// obey does what zklock says until zklock is done or dead. runs reports whether a process of a group can run.
func obey(in io.Reader, args []string, runs func(group int) bool) int {
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
	var given handover
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
				late, pause := time.Now().Add(time.Minute+given.Timeout), time.Millisecond
				for end(); group != 0 && runs(group); end() { // again, for processes that were being started
					if time.Now().After(late) {
						return 1 // SIGKILL does not end a process that waits for a disk, and the session is over
					}
					time.Sleep(pause)
					pause = min(2*pause, 100*time.Millisecond)
				}
				if err := endSession(args, given); err != nil {
					say("zklock was killed, and its lock is taken until its session ends: %v", err)
				}
				return 1
			}
			word, number, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch word {
			case "handover":
				_ = json.Unmarshal([]byte(number), &given)
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

// endSession ends the session of a dead zklock, with the flags that zklock had.
func endSession(args []string, given handover) error {
	if given.Session == nil {
		return nil
	}
	c, o := newRun()
	o.kept = given.Files
	_, err := c.parse(args[1:]) // without the word run
	if err != nil {
		return err
	}
	list, _, err := o.ensemble()
	if err != nil {
		return err
	}
	opts, err := o.wireOptions()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
	defer cancel()
	if err := wire.End(ctx, list, o.timeout, *given.Session, opts...); !errors.Is(err, wire.ErrOver) {
		return err
	}
	return nil
}
