package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// The exit codes of zklock itself. All other codes are the command's. They follow other tools that
// run commands: timeout(1) exits with 124 after its time limit, the shell with 126 and 127 for
// commands that cannot run.
const (
	exitFree      = 1 // of ls -status; of reap -once if the process lives
	exitPassed    = 118
	exitAsked     = 119
	exitBusy      = 120
	exitLost      = 121
	exitNoServer  = 122
	exitUsage     = 123
	exitTimeout   = 124
	exitFailed    = 125
	exitNotRun    = 126
	exitNotFound  = 127
	exitSignalled = 128 // plus the signal's number
)

// exitCodes is the text of `zklock help exit`.
const exitCodes = `Exit codes of zklock run: the command's own, 128 + n if signal n has ended it, 0
if it was done already (-slot, -once-every), and zklock's own, which come with a
message that begins with "zklock:".

  118  a later slot was completed, and this one was not (-slot)
  119  the command was ended because zklock ask asked for the lock
  120  the lock is taken (-try)
  121  the lock was lost: the command was ended, had ended, or was not started
  122  no server answers
  123  wrong usage
  124  the lock was not free within -wait
  125  any other failure
  126  the command cannot be run
  127  the command was not found

The other commands exit with 0, 122, 123 or 125. ls -status exits with 0 if the
lock is held, and with 1 if it is free. reap -once exits with 1 if the process
lives.
`

// exit is an error with an exit code.
type exit struct {
	code int
	err  error  // nil: no message
	hint string // what the user can do; may be empty
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

func fail(code int, format string, args ...any) error {
	return exit{code: code, err: fmt.Errorf(format, args...)}
}

// usage returns an error in the user's arguments.
func usage(format string, args ...any) error {
	return exit{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// killedBy returns the exit code that a shell reports after a signal.
func killedBy(sig syscall.Signal) int { return exitSignalled + int(sig) }

// report prints the error and returns the exit code.
func report(c *command, err error) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	var e exit
	if errors.As(err, &e) {
		code = e.code
		if e.err == nil {
			return code
		}
	}
	say("%v", err)
	switch {
	case e.hint != "":
		say("%s", e.hint)
	case code == exitUsage:
		say("see zklock %s -help", c.name)
	}
	return code
}

// say prints to standard error: standard output belongs to the command.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "zklock: "+format+"\n", args...)
}
