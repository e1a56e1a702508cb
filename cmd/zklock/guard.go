package main

import (
	"bufio"
	"context"
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
// when zklock cannot, because zklock was killed or stopped. The guard reads zklock's session, the
// id of the group, and then, repeatedly, lines that say how much longer the group may run, and when
// the line was written. The word "done" ends the guard. If the pipe ends without that word, zklock
// is dead. The guard then also ends the session, so that the lock is free as soon as the group is
// dead.
type watcher struct {
	pipe    *os.File
	cmd     *exec.Cmd
	session *wire.Session // with which zklock holds the lock; nil in some tests
	group   int           // the command's group; 0 until there is one
}

// startGuard starts the guard. It is called before the command is started, so that the command
// never runs without a guard.
func startGuard(session *wire.Session) (*watcher, error) {
	return startGuardOf(session, 0, time.Time{})
}

func startGuardOf(session *wire.Session, group int, until time.Time) (*watcher, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	w := &watcher{pipe: pipe, session: session}
	if session != nil {
		_ = w.tell("session %d %x", session.ID, session.Password)
	}
	if group != 0 { // write it before the guard starts: if zklock is stopped right after, it could not write it
		w.guards(group)
		w.allow(until)
	}
	w.cmd = &exec.Cmd{Path: path, Args: append([]string{guardName}, os.Args[1:]...), Stdin: in, Stderr: os.Stderr}
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
	another, err := startGuardOf(w.session, w.group, until)
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
	var session wire.Session
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
				late := time.Now().Add(time.Minute)
				for end(); group != 0 && running(group); end() { // again, for processes that were being started
					if time.Now().After(late) {
						return 1 // SIGKILL does not end a process that waits for a disk
					}
					time.Sleep(5 * time.Millisecond)
				}
				if err := endSession(args, session); err != nil {
					say("zklock was killed, and its lock is taken until its session ends: %v", err)
				}
				return 1
			}
			word, number, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch word {
			case "session":
				_, _ = fmt.Sscanf(number, "%d %x", &session.ID, &session.Password)
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
func endSession(args []string, session wire.Session) error {
	if session.ID == 0 {
		return nil
	}
	c, o := newRun()
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
	if err := wire.End(ctx, list, o.timeout, session, opts...); !errors.Is(err, wire.ErrOver) {
		return err
	}
	return nil
}
