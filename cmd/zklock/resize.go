package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/semaphore"
)

func resizeCommand() *command {
	c := newCommand("resize", "/path N | none", "change the number of permits at a path", `
  zklock resize /jobs/backup 6
  zklock resize /jobs/backup none                   a plain lock from now on

The first zklock run -permits N stores N at the path, and later ones must say
the same. Waiters follow the new number at once, and holders keep their permits.
The server forgets the number one to two minutes after the last lock.

none deletes the number, which is the data of the node, and the node if nothing
is below it. It cannot tell a number that another program has stored there. It
fails while a permit is held or waited for. A program that has used the
semaphore stores its number again.
`)
	t := &target{}
	t.servers.define(c.flags, 10*time.Second)
	c.run = func(args []string) error {
		n := 0
		if len(args) > 1 && args[1] != "none" {
			var err error
			if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
				return usage("invalid number of permits %q: want 1 or more, or none", args[1])
			}
		}
		switch len(args) {
		case 0, 2:
		case 1:
			return usage("the number of permits is missing: zklock resize %s N, or none", args[0])
		default:
			return usage("%q is one argument too many", args[2])
		}
		return t.act(c, args[:min(1, len(args))], func(ctx context.Context, conn *zklocks.Conn) error {
			ctx, cancel := context.WithTimeout(ctx, t.timeout)
			defer cancel()
			return t.late(t.resize(ctx, conn, n))
		})
	}
	return c
}

// resize stores the number of permits, or removes it if n is 0.
func (t *target) resize(ctx context.Context, conn *zklocks.Conn, n int) error {
	at, err := read(ctx, conn, t.path)
	switch {
	case err != nil:
		return err
	case at.permits == 0:
		return fail(exitFailed, "%s is not a semaphore: no number of permits is stored there", t.path)
	case n > 0:
		err = semaphore.New(conn, t.path, 0).Resize(ctx, n)
	default:
		err = t.clear(ctx, conn, at)
	}
	if err != nil {
		return err
	}
	if n > 0 {
		t.printf("%s: %d permits, %d before\n", t.path, n, at.permits)
	} else {
		t.printf("%s: deleted its data, the number %d\n", t.path, at.permits)
	}
	return nil
}

// clear removes the number and the queue's directory in one transaction. Then it deletes the node,
// unless the node has other children.
func (t *target) clear(ctx context.Context, conn *zklocks.Conn, at stored) error {
	path := conn.Path(t.path)
	empty := &zk.SetDataRequest{Path: path, Version: at.version}
	for ops := []any{empty, &zk.DeleteRequest{Path: path + "/queue", Version: -1}}; at.permits > 0; {
		_, err := retried(ctx, func() ([]zk.MultiResponse, error) { return conn.Client().Multi(ops...) })
		switch err {
		case zk.ErrNotEmpty:
			return fail(exitFailed, "%s: permits are held or waited for", t.path)
		case zk.ErrNoNode: // the directory does not exist
			ops = ops[:1]
		case nil, zk.ErrBadVersion: // an answer may have been lost
		default:
			return fmt.Errorf("%s: %w", t.path, err)
		}
		if at, err = read(ctx, conn, t.path); err != nil {
			return err
		}
		empty.Version = at.version
	}
	if !at.missing && !at.foreign {
		_ = conn.Client().Delete(path, at.version)
	}
	return nil
}
