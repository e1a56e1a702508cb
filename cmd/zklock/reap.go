package main

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/zklocks/zklocks/internal/sessionfile"
	"github.com/zklocks/zklocks/internal/wire"
)

// reaper ends the sessions of dead processes.
type reaper struct {
	servers
	list []string // servers to ask before those in the session file
	opts []wire.Option
}

func reapCommand() *command {
	r := &reaper{}
	c := newCommand("reap", "file...", "free the locks of a process when it dies", `
  zklock reap /run/app/session        in a sidecar: wait for each death
  zklock reap -once /run/app/session  after it: in systemd's ExecStopPost

The files are those of zklocks.WithSessionFile or zklock run -session-file. The
locks of a process that lives remain. The servers are those of the process. If
-servers or ZK_SERVERS names others, these are asked first.
`)
	once := c.flags.Bool("once", false, "do not wait: exit with 1 if the process lives")
	r.define(c.flags, 10*time.Second)
	c.run = func(files []string) (err error) {
		if len(files) == 0 {
			return usage("the session file is missing")
		}
		if r.addrs != "" || os.Getenv("ZK_SERVERS") != "" {
			if r.list, _, err = r.ensemble(); err != nil {
				return usage("%s", unprefixed(err))
			}
		}
		if slices.Contains(files, "") {
			return usage("the name of a session file is empty")
		}
		if r.opts, err = r.wireOptions(); err != nil {
			return err
		}
		if !*once {
			for _, file := range files {
				switch f, err := sessionfile.Open(file, false); {
				case err == nil:
					f.Close(false)
				case !errors.Is(err, fs.ErrNotExist):
					return fail(exitFailed, "%s: %s", file, unprefixed(err))
				}
			}
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
			for _, file := range files {
				go r.follow(file)
			}
			<-stop // the process may have died a moment before
		}
		var errs []error
		for _, file := range files {
			if err := r.reap(file, false); *once {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	return c
}

// follow waits until the file has a session, and then for the death of its process, repeatedly. It
// must not lock an empty file: the process that starts next wants it.
func (r *reaper) follow(file string) {
	for said := ""; ; time.Sleep(100 * time.Millisecond) {
		if info, err := os.Stat(file); err == nil && info.Size() == 0 {
			continue
		}
		err := r.reap(file, true)
		if err == nil {
			continue
		}
		if err.Error() != said {
			said = err.Error()
			say("%s", said)
		}
		time.Sleep(time.Second) // the servers may refuse each attempt
	}
}

func (r *reaper) reap(file string, wait bool) error {
	ended, err := wire.Reap(file, wait, r.list, r.timeout, r.opts...)
	dir := filepath.Dir(file)
	_, missing := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing != nil: // perhaps a mistake in the name
		return fail(exitFailed, "%s: the directory %s does not exist", file, dir)
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, sessionfile.ErrInUse):
		return fail(exitFree, "%s is %w", file, err)
	case errors.Is(err, wire.ErrNoAnswer):
		return fail(exitNoServer, "%s: %s", file, unprefixed(err))
	case err != nil:
		return fail(exitFailed, "%s: %s", file, unprefixed(err))
	case ended != 0:
		say("%s: the process has died: ended its session %s", file, sessionID(ended))
	}
	return nil
}
