package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/znode"
)

// observer is the common part of `ls` and `watch`.
type observer struct {
	servers
	json    bool
	path    string
	skipped bool      // walk has skipped a path
	out     io.Writer // nil: standard output
}

func (o *observer) printf(format string, args ...any) {
	var out io.Writer = os.Stdout
	if o.out != nil {
		out = o.out
	}
	fmt.Fprintf(out, format, args...)
}

func (o *observer) define(c *command) {
	c.flags.BoolVar(&o.json, "json", false, "print JSON, not a table")
	o.servers.define(c.flags, 10*time.Second)
}

func (o *observer) read(args []string) (err error) {
	var rest []string
	if o.path, rest, err = checkPath(args); err == nil && len(rest) > 0 {
		err = usage("%q is one argument too many", rest[0])
	}
	return err
}

func listCommand() *command {
	c := newCommand("ls", "/path", "show who holds a lock and who waits", `
  zklock ls /jobs/nightly                           one lock
  zklock ls -r /jobs                                all locks below a path
  zklock ls -status /jobs/nightly >/dev/null && echo running
  zklock ls -json /jobs/nightly | jq -r '.members[] | select(.holding).data'

Shows the holders and waiters in the order in which they came, of all kinds of
lock, of this tool and of any other program (but no semaphores of other
libraries). QUEUED is when it called. TOKEN is the fencing token.
DATA is what -data or the program says; the default of zklock run names host,
pid and command. -r reads each node below the path, about 1,000 a second.
`)
	o := &observer{}
	o.define(c)
	below := c.flags.Bool("r", false, "list all locks in use at or below the path, a line each")
	status := c.flags.Bool("status", false, "exit with 0 if the lock is held, with 1 if it is free")
	c.run = func(args []string) error {
		if *below && len(args) == 1 && args[0] == "/" {
			o.path = "/" // not the path of a lock, but the root of all
		} else if err := o.read(args); err != nil {
			return err
		}
		return o.connected(func(ctx context.Context, conn *zklocks.Conn) error { return o.list(ctx, conn, *below, *status) })
	}
	return c
}

// list prints the line of the lock, or the lines of all locks in use at or below the path.
func (o *observer) list(ctx context.Context, conn *zklocks.Conn, below, status bool) (err error) {
	held, found := false, false
	show := func(l *line) {
		held, found = held || l.held(), true
		if below && !o.json {
			o.printf("%s: %s\n", l.Path, l.summary())
		} else {
			o.printf("%s", o.show(l))
		}
	}
	if below {
		if err = o.walk(ctx, conn, o.path, show); err == nil && !found && !o.json {
			o.printf("%s: no lock is in use at or below this path\n", o.path)
		}
	} else {
		var l *line
		if l, err = o.look(ctx, conn, o.path); err == nil {
			show(l)
		}
	}
	switch {
	case err == nil && o.skipped:
		return fail(exitFailed, "%s: the list is not complete", o.path)
	case err == nil && status && !held:
		return exit{code: exitFree}
	}
	return err
}

// walk calls found for each lock in use at or below a path. It skips paths that it may not read.
func (o *observer) walk(ctx context.Context, conn *zklocks.Conn, path string, found func(*line)) error {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	children, err := retried(limited, func() ([]string, error) {
		children, _, err := conn.Client().Children(conn.Path(path))
		return children, err
	})
	switch {
	case err == zk.ErrNoNode && path == o.path:
		found(&line{Path: path, Missing: true, Members: []member{}})
		return nil
	case err == zk.ErrNoNode: // it was just deleted
		return nil
	case err != nil:
		return o.skip(o.late(fmt.Errorf("%s: %w", path, err)))
	}
	slices.Sort(children)
	isMember := func(name string) bool { _, is := znode.Parse(name, znode.Locks...); return is }
	inUse := slices.ContainsFunc(children, func(name string) bool { return isMember(name) || name == "queue" || name == "last" })
	once := false
	if inUse && path != "/" {
		if l, err := o.look(ctx, conn, path); err == nil && l.Kind != "" {
			found(l)
			once = l.Last != nil
		} else if err := o.skip(err); err != nil {
			return err
		}
	}
	for _, name := range children {
		below := strings.TrimSuffix(path, "/") + "/" + name
		if isMember(name) || once && name == "lock" || conn.Path(below) == "/zookeeper" {
			continue
		}
		if err := o.walk(ctx, conn, below, found); err != nil {
			return err
		}
	}
	return nil
}

// skip reports the error of one path. It returns the error if walk must stop.
func (o *observer) skip(err error) error {
	if err == nil || unanswered(err) || errors.Is(err, context.Canceled) {
		return err
	}
	o.skipped = true
	say("%v", err)
	return nil
}

// look is look within one session timeout.
func (o *observer) look(ctx context.Context, conn *zklocks.Conn, path string) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	l, err := look(ctx, conn, path)
	if l != nil {
		l.ensemble = len(o.servers.list()) > 1
	}
	return l, o.late(err)
}

func (s *servers) refused() error {
	list := strings.Join(s.list(), ", ")
	if mechanism, _ := s.mechanism(); mechanism == nil && s.authFile == "" {
		return exit{exitFailed, fmt.Errorf("%s: the servers demand that clients authenticate", list), "-keytab, -kerberos, -sasl-file or -auth-file: zklock help connection"}
	}
	return fail(exitFailed, "%s: the servers refuse the credentials", list)
}

// late replaces the error of a call that has reached -session-timeout.
func (s *servers) late(err error) error {
	if errors.Is(err, zk.ErrAuthFailed) {
		return s.refused()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fail(exitNoServer, "no answer from %s for %v", strings.Join(s.list(), ", "), s.timeout)
	}
	return err
}

func (o *observer) show(l *line) string {
	if !o.json {
		return l.table(time.Now())
	}
	text, _ := json.Marshal(l)
	return string(text) + "\n"
}
