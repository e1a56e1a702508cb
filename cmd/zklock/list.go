package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

// observer is the common part of `ls` and `watch`.
type observer struct {
	servers
	json bool
	path string
}

func (o *observer) define(c *command) {
	c.flags.BoolVar(&o.json, "json", false, "print JSON, not a table")
	o.servers.define(c.flags, 10*time.Second)
}

func (o *observer) read(args []string) (err error) {
	var rest []string
	if o.path, rest, err = checkPath(args); err == nil && len(rest) > 0 {
		err = usage("%q is one argument too many: flags come before the path", rest[0])
	}
	return err
}

func listCommand() *command {
	c := newCommand("ls", "/path", "show who holds a lock and who waits", `
Shows who holds the lock at a path and who waits for it, in the order in which
they came; for all kinds of lock, of this tool and of any other program. Of
another library's semaphore it says whose that is.

  zklock ls /jobs/nightly
  zklock ls -json /jobs/nightly | jq -r '.members[] | select(.holding).data'

FOR is how long ago the member queued. TOKEN is the fencing token. DATA is what
-data or the program says; zklock's own default names host, pid and command. A
holder that Curator's Revoker has asked to release has no data left.
`)
	o := &observer{}
	o.define(c)
	c.run = func(args []string) error {
		if err := o.read(args); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		conn, err := o.connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		l, err := o.look(ctx, conn)
		if err == nil {
			fmt.Print(o.show(l))
		}
		return err
	}
	return c
}

func (o *observer) look(ctx context.Context, conn *zklocks.Conn) (*line, error) {
	l, err := look(ctx, conn, o.path)
	return l, o.late(err)
}

func (s *servers) refused() error {
	return fail(exitFailed, "%s: the servers refuse the credentials", strings.Join(s.list(), ", "))
}

// late says what it means that -timeout is over.
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
