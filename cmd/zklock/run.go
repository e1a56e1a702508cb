package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

// order holds the arguments of `zklock run`.
type order struct {
	servers
	lock
	wait      time.Duration
	quiet     bool          // when another process has the lock
	killAfter time.Duration // quarter: what the user has not set
	argv      []string
}

// quarter of the session timeout that the server grants: how long it is from SIGTERM to SIGKILL.
const quarter time.Duration = -1

func runCommand() *command {
	c := newCommand("run", "/path -- command [arguments]", "hold a lock while a command runs", `
Waits for the lock, runs the command, gives the lock back, and exits with the
command's code. The lock is a path in ZooKeeper, which is made when needed.

  zklock run /jobs/nightly -- ./nightly.sh            wait, however long
  zklock run -try /jobs/nightly -- ./nightly.sh       or do not wait
  zklock run -wait 30s /jobs/nightly -- ./nightly.sh  or not for long
  zklock run -shared /data/index -- ./search.sh       beside others with -shared
  zklock run -permits 4 /jobs/backup -- ./backup.sh   up to four at a time
  zklock run /jobs/nightly -- sh -c 'a | b'           a pipe needs a shell

The command finds ZKLOCK_PATH and ZKLOCK_TOKEN in its environment. The token is
a number that is larger for each next holder: hand it to your store with each
write, and have the store refuse smaller ones than it has seen. (It does not tell
holders apart that run side by side.)

When the lock is about to be lost, the command's process group gets SIGTERM, and
SIGKILL after -kill-after, before another process can have the lock.

Exit codes: the command's own, or 128 + n if signal n has ended it, and
  120  busy (-try)                 124  not free within -wait
  121  the lock was lost           125  any other failure
  122  no server answers           126  the command cannot be run
  123  wrong usage                 127  the command was not found
`)
	o := &order{}
	c.flags.BoolVar(&o.shared, "shared", false, "hold the lock together with others that say -shared")
	c.flags.IntVar(&o.permits, "permits", 0, "let `n` run at a time; all who use the path say the same n")
	c.flags.BoolVar(&o.try, "try", false, "do not wait: exit with 120 if the lock is taken")
	c.flags.BoolVar(&o.quiet, "quiet", false, "say nothing if the lock is taken: the exit code tells")
	durationVar(c.flags, &o.wait, "wait", 0, "`duration`: how long to wait before exiting with 124; default: forever")
	data := c.flags.String("data", "", "`text`: what zklock ls shows, to all; default: host, pid, command")
	o.define(c.flags, 20*time.Second)
	durationVar(c.flags, &o.killAfter, "kill-after", quarter,
		"`duration`: from SIGTERM to SIGKILL when the lock is lost; at most, and\nby default, a quarter of the session timeout")
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
	return c
}

func (o *order) read(args []string, c *command) (err error) {
	if o.path, args, err = checkPath(args); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return usage("%s stands behind the path: flags come before it, a command behind --", args[0])
	}
	switch o.argv = args; {
	case len(args) == 0:
		return usage("the command is missing: zklock run %s -- command", o.path)
	case o.permits < 0 || o.permits == 0 && c.given("permits"):
		return usage("-permits %d: it must be at least 1", o.permits)
	case o.permits > 0 && o.shared:
		return usage("-shared and -permits do not go together: a path is a lock or a semaphore")
	case string(o.data) == "__REVOKE__":
		return usage("-data %s: that is what asks a holder to release the lock", o.data)
	case o.try && c.given("wait"):
		return usage("-try and -wait do not go together")
	case o.wait < 0 || o.wait == 0 && c.given("wait"):
		return usage("-wait %v: it must be positive; -try does not wait", o.wait)
	case !c.given("kill-after"):
	case o.killAfter < 0:
		return usage("-kill-after %v is negative", o.killAfter)
	case o.killAfter > o.timeout/4:
		return usage("-kill-after %v is more than a quarter of -timeout %v: make that longer", o.killAfter, o.timeout)
	}
	return nil
}

// describe is what other clients see of the holder. It has no arguments: there may be secrets in
// them.
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
	conn, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	hold, err := o.hold(ctx, conn)
	if err != nil {
		return err
	}
	waiting <- struct{}{}
	<-waiting // from now on signals are the command's
	if ctx.Err() != nil && errors.As(context.Cause(ctx), new(exit)) {
		o.release(conn, hold)
		return context.Cause(ctx)
	}
	err = o.runHolding(conn, hold, signals)
	lost := o.release(conn, hold)
	if e, own := err.(exit); lost != nil && own && e.err == nil {
		return fail(exitLost, "%s; the command had ended by itself", unprefixed(lost)) // another process may have held it before that
	}
	return err
}

// hold takes the lock.
func (o *order) hold(ctx context.Context, conn *zklocks.Conn) (*zklocks.Hold, error) {
	granted := conn.SessionTimeout()
	if o.killAfter > granted/4 {
		return nil, usage("-kill-after %v is more than a quarter of the session timeout, %v, that the server has granted", o.killAfter, granted)
	}
	if o.try {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	h, err := o.take(ctx, conn)
	var signalled exit
	switch {
	case err == nil:
		return h, nil
	case errors.As(context.Cause(ctx), &signalled):
		return nil, signalled
	case o.quiet && errors.Is(err, zklocks.ErrBusy):
		return nil, exit{code: exitBusy}
	case errors.Is(err, zklocks.ErrBusy):
		return nil, fail(exitBusy, "%s is taken", o.path)
	case errors.Is(err, zk.ErrAuthFailed):
		return nil, o.refused()
	case errors.Is(err, context.DeadlineExceeded) && (!o.queued.Load() || conn.Client().State() != zk.StateHasSession):
		return nil, fail(exitNoServer, "no answer from %s", strings.Join(o.list(), ", "))
	case o.quiet && errors.Is(err, context.DeadlineExceeded):
		return nil, exit{code: exitTimeout}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fail(exitTimeout, "%s was not free within %v", o.path, o.wait)
	}
	return nil, err
}

// release releases the lock, and returns an error if it was lost before. If no server answers it
// closes the connection, and if that fails the server ends the session after its timeout.
func (o *order) release(conn *zklocks.Conn, h *zklocks.Hold) (lost error) {
	ctx, cancel := context.WithTimeout(context.Background(), conn.SessionTimeout()/4)
	defer cancel()
	err := h.Release(ctx)
	if errors.Is(err, zklocks.ErrLost) {
		return err
	}
	if err != nil {
		say("giving %s back: %v", o.path, err)
	}
	return nil
}
