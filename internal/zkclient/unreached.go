package zkclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// unreached is the error of a call whose ctx ended while there was no connection.
type unreached struct {
	error
	tried   string
	without time.Duration // 0: unknown
}

func (e unreached) Unwrap() error { return e.error }

func (e unreached) Error() string {
	text := "no connection to ZooKeeper"
	if e.without > 0 {
		text += fmt.Sprintf(" for %v", e.without.Round(time.Millisecond))
	}
	return fmt.Sprintf("%v (%s; tried: %s)", e.error, text, e.tried)
}

// Unreached returns the error of a call whose ctx has ended. If there is no connection, it adds
// which servers the client tried and for how long.
func (c *Client) Unreached(ctx context.Context, err error) error {
	if c.conn.State() == zk.StateHasSession {
		return err
	}
	return c.unreached(ctx, err, time.Time{})
}

// unreached is Unreached for a call that has waited for a connection since began.
func (c *Client) unreached(ctx context.Context, err error, began time.Time) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.As(err, new(unreached)) {
		return err
	}
	e := unreached{error: err, tried: strings.Join(c.link.Servers, ", ")}
	if down := c.link.Down(); !down.IsZero() {
		began = down
	}
	if !began.IsZero() {
		e.without = time.Since(began)
	}
	return e
}
