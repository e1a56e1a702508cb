package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/sessionfile"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/semaphore"
)

// order holds the arguments of `zklock run`.
type order struct {
	servers
	lock
	wait      time.Duration
	quiet     bool // print nothing if the lock is taken
	ignoreAsk bool
	every     time.Duration // run once in each period of this length
	slot      string        // run once for this text
	killAfter time.Duration // from SIGTERM to SIGKILL; quarter: not set by the user
	file      string        // the session file; empty: none
	argv      []string
}

// quarter means a quarter of the session timeout that the server grants.
const quarter time.Duration = -1

func runCommand() *command { c, _ := newRun(); return c }

func newRun() (*command, *order) {
	c := newCommand("run", "/path -- command [arguments]", "hold a lock while a command runs", `
  zklock run /jobs/nightly -- ./nightly.sh            wait, however long
  zklock run -try /jobs/nightly -- ./nightly.sh       or do not wait
  zklock run -permits 4 /jobs/backup -- ./backup.sh   up to four at a time
  zklock run -slot "$(date -u +%F)" /mail -- ./mail   once a day, on any machine

The command gets ZKLOCK_PATH, and ZKLOCK_TOKEN, the fencing token. When the lock
is about to be lost, or is asked for, all of its process group gets SIGTERM, and
later SIGKILL. The exit code is the command's, or one of zklock help exit.
`)
	o := &order{}
	c.flags.BoolVar(&o.shared, "shared", false, "hold the lock together with others that say -shared")
	c.flags.IntVar(&o.permits, "permits", 0, "let `n` run at a time; all must say the same n")
	c.flags.BoolVar(&o.try, "try", false, "do not wait: exit with 120 if the lock is taken")
	c.flags.BoolVar(&o.quiet, "quiet", false, "print nothing about a lock that is taken")
	c.flags.BoolVar(&o.ignoreAsk, "ignore-ask", false, "do not end the command when the lock is asked for")
	durationVar(c.flags, &o.every, "once-every", 0, "`duration`: not if any machine has run it in this period")
	c.flags.StringVar(&o.slot, "slot", "", "`text`: not if any machine has run it for this text, or later")
	durationVar(c.flags, &o.wait, "wait", 0, "`duration`: wait so long, then exit with 124; default: forever")
	data := c.flags.String("data", "", "`text`: what zklock ls shows; default: host, pid, command")
	o.define(c.flags, 20*time.Second)
	c.flags.StringVar(&o.file, "session-file", "", "`file`: zklock reap frees the lock if all of zklock is killed")
	durationVar(c.flags, &o.killAfter, "kill-after", quarter,
		"`duration`: from SIGTERM to SIGKILL; default: session timeout / 4")
	c.run = func(args []string) error {
		o.data = []byte(*data)
		if err := o.read(args, c); err != nil {
			return err
		}
		if !c.given("data") {
			o.data = describe(o.argv)
		}
		return o.run()
	}
	return c, o
}

func (o *order) read(args []string, c *command) (err error) {
	if o.path, args, err = checkPath(args); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch o.argv = args; {
	case len(args) == 0:
		return usage("the command is missing: zklock run %s -- command", o.path)
	case o.permits < 0 || o.permits == 0 && c.given("permits"):
		return usage("-permits %d: it must be at least 1", o.permits)
	case o.permits > 0 && o.shared:
		return usage("-shared and -permits do not go together: a path is a lock or a semaphore")
	case (c.given("once-every") || c.given("slot")) && (c.given("once-every") == c.given("slot") || o.shared || o.permits > 0 || o.try):
		return usage("-once-every and -slot go together neither with each other nor with -shared, -permits and -try")
	case c.given("once-every") && o.every <= 0:
		return usage("-once-every %v: it must be positive", o.every)
	case c.given("session-file") && o.file == "":
		return usage("-session-file is empty")
	case c.given("slot") && o.slot == "":
		return usage("-slot is empty")
	case string(o.data) == "__REVOKE__":
		return usage("-data %s: that is what asks a holder to release the lock", o.data)
	case o.try && c.given("wait"):
		return usage("-try and -wait do not go together")
	case o.wait < 0 || o.wait == 0 && c.given("wait"):
		return usage("-wait %v: it must be positive; -try does not wait", o.wait)
	case os.Getenv("ZKLOCK_PATH") == o.path && os.Getenv("ZKLOCK_SERVERS") == o.text():
		return usage("%s is held by the zklock run that this one runs under (ZKLOCK_PATH): it would wait for itself", o.path)
	case !c.given("kill-after"):
	case o.killAfter < 0:
		return usage("-kill-after %v is negative", o.killAfter)
	case o.killAfter > o.timeout/4:
		return usage("-kill-after %v is more than a quarter of -session-timeout %v: make that longer", o.killAfter, o.timeout)
	}
	return nil
}

// describe returns the data of the holder's node. It omits arguments, which may be secret.
func describe(argv []string) []byte {
	host, _ := os.Hostname()
	text, _ := json.Marshal(struct {
		Host    string `json:"host"`
		PID     int    `json:"pid"`
		Command string `json:"command"`
	}{host, os.Getpid(), filepath.Base(argv[0])})
	return text
}

func (o *order) run() error {
	signals := catch()
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	waiting := make(chan struct{})
	go func() { // a signal ends the wait
		for {
			select {
			case sig := <-signals:
				if fatal(sig) {
					stop(exit{code: killedBy(sig.(syscall.Signal))})
				}
			case <-waiting:
				waiting <- struct{}{}
				return
			}
		}
	}()
	if o.wait > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, o.wait)
		defer cancel()
	}
	conn, err := o.connectWithFile(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if granted := conn.SessionTimeout(); o.killAfter > granted/4 {
		return usage("-kill-after %v is more than a quarter of the session timeout, %v, that the server has granted", o.killAfter, granted)
	}
	told := o.sayWhatItWaitsFor(ctx, conn)
	var ended error // how the command has ended; nil: it was not started
	// The command ignores the context of its hold, which -wait cancels.
	err = o.perform(ctx, conn, func(_ context.Context, hold *zklocks.Hold) error {
		told()
		waiting <- struct{}{}
		<-waiting // from now on signals go to the command
		if ended = context.Cause(ctx); !errors.As(ended, new(exit)) {
			ended = o.runHolding(conn, hold, signals)
		}
		stop(nil) // from now on the wait for the release is limited
		if ended == (exit{}) {
			return nil // success is recorded, with -once-every and -slot
		}
		return ended
	})
	told()
	own, _ := ended.(exit)
	switch {
	case ended == nil:
		return o.notStarted(ctx, conn, err)
	case own.err != nil || err == nil || err == ended:
		return ended
	case errors.Is(err, zklocks.ErrLost): // another process may have held the lock before the command ended
		return fail(exitLost, "%s; the command had ended by itself", unprefixed(err))
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		say("%s was not released, as no server answered: the next holder gets it when the session ends", o.path)
		return ended
	}
	return err
}

// connectWithFile connects with the session file, if there is one. While another process has the
// file, that process holds or waits for its lock, so the wait for the file is a wait for the lock.
func (o *order) connectWithFile(ctx context.Context) (*zklocks.Conn, error) {
	if o.file == "" {
		return o.connect(ctx)
	}
	for said := false; ; said = true {
		soon, cancel := context.WithTimeout(ctx, patience/2) // a process that dies has it for a moment
		inUse := awaitFile(soon, o.file)
		cancel()
		if !errors.Is(inUse, sessionfile.ErrInUse) { // Connect returns other errors
			conn, err := o.connect(ctx, zklocks.WithSessionFile(o.file))
			if errors.Is(err, sessionfile.ErrInUse) { // another process was faster
				continue
			}
			return conn, err
		}
		by, _, _ := strings.Cut(inUse.Error(), ": ")
		var signalled exit
		switch {
		case errors.As(context.Cause(ctx), &signalled):
			return nil, signalled
		case o.quiet && o.try:
			return nil, exit{code: exitBusy}
		case o.try:
			return nil, fail(exitBusy, "session file %s is %s", o.file, by)
		case o.quiet && ctx.Err() != nil:
			return nil, exit{code: exitTimeout}
		case ctx.Err() != nil:
			return nil, fail(exitTimeout, "session file %s was not free within %v: it is %s", o.file, o.wait, by)
		case !said && !o.quiet:
			say("waiting: session file %s is %s", o.file, by)
		}
	}
}

// awaitFile returns when no process has the session file. When ctx is canceled before, the error
// matches sessionfile.ErrInUse.
func awaitFile(ctx context.Context, path string) error {
	f, err := sessionfile.Open(path, false)
	if err != nil {
		return err
	}
	defer f.Close(false)
	return f.Lock(ctx)
}

// perform calls work under the lock, or once in a period or for a slot.
func (o *order) perform(ctx context.Context, conn *zklocks.Conn, work func(context.Context, *zklocks.Hold) error) error {
	job := once.New(conn, o.path, zklocks.WithData(o.data))
	switch {
	case o.slot != "":
		return job.RunSlot(ctx, o.slot, work)
	case o.every > 0:
		return job.RunEvery(ctx, o.every, work)
	}
	locker, err := o.locker(ctx, conn)
	switch {
	case err != nil:
		return err
	case o.try:
		return zklocks.Do(ctx, zklocks.Within(o.timeout, locker.TryLock), work)
	}
	return zklocks.Do(ctx, locker.Lock, work)
}

// notStarted returns the reason why the command was not started.
func (o *order) notStarted(ctx context.Context, conn *zklocks.Conn, err error) error {
	var signalled exit
	switch {
	case errors.As(context.Cause(ctx), &signalled):
		return signalled
	case errors.Is(err, once.ErrDone):
		if !o.quiet {
			say("%s", strings.TrimPrefix(err.Error(), "once: run "))
		}
		return nil
	case errors.Is(err, once.ErrPassed):
		return fail(exitPassed, "%s; the command was not run", strings.TrimPrefix(err.Error(), "once: run "))
	case o.quiet && errors.Is(err, zklocks.ErrBusy):
		return exit{code: exitBusy}
	case errors.Is(err, zklocks.ErrBusy):
		return fail(exitBusy, "%s is taken", o.path)
	case errors.Is(err, zk.ErrAuthFailed):
		return o.refused()
	case errors.Is(err, semaphore.ErrMismatch):
		return exit{exitFailed, err, o.resizing(ctx, conn)}
	case errors.Is(err, zklocks.ErrNoAnswer):
		return fail(exitNoServer, "no answer from %s", strings.Join(o.list(), ", "))
	case o.quiet && errors.Is(err, context.DeadlineExceeded):
		return exit{code: exitTimeout}
	case errors.Is(err, context.DeadlineExceeded):
		return fail(exitTimeout, "%s was not free within %v", o.path, o.wait)
	}
	return err
}

// resizing returns the hint for a number of permits that differs from the stored number.
func (o *order) resizing(ctx context.Context, conn *zklocks.Conn) string {
	if at, err := read(ctx, conn, o.path); err != nil || at.permits == 0 {
		return ""
	}
	return fmt.Sprintf("zklock resize %s %d stores that number", o.path, o.permits)
}

// queue returns the path of the lock itself.
func (o *order) queue() string {
	if o.slot != "" || o.every > 0 {
		return o.path + "/lock"
	}
	return o.path
}

// patience is how long run waits before it prints that it waits.
const patience = 2 * time.Second

// sayWhatItWaitsFor prints after a while who holds the lock, unless stop is called first.
func (o *order) sayWhatItWaitsFor(ctx context.Context, conn *zklocks.Conn) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	said := make(chan struct{})
	go func() {
		defer close(said)
		select {
		case <-time.After(patience):
		case <-ctx.Done():
		}
		if o.quiet || o.try || ctx.Err() != nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		l, err := look(limited, conn, o.queue())
		switch {
		case ctx.Err() != nil: // the wait is over
		case limited.Err() != nil:
			say("waiting for %s: no server answers", o.path)
		case err != nil || len(l.Members) == 0 || !l.Members[0].Holding:
			say("waiting for %s", o.path)
		default:
			m := l.Members[0]
			say("waiting for %s, held by %s, which queued %v ago", o.path, cmp.Or(printable(m.Data), "session "+m.Session), age(time.Since(m.Since)))
		}
	}()
	return func() {
		cancel()
		<-said
	}
}
