package zkclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// errNoConnection is in the error of a call whose ctx ended while there was no connection.
var errNoConnection = errors.New("no connection to ZooKeeper")

// Unreached returns the error of a call whose ctx has ended. If there is no connection, or the
// servers refuse the credentials, it adds which servers the client tried, for how long, and why the
// last attempt failed. The error matches zk.ErrAuthFailed if that is why.
func (c *Client) Unreached(ctx context.Context, err error) error {
	if c.conn.State() == zk.StateHasSession && !errors.Is(c.conn.LastFailure(), zk.ErrAuthFailed) {
		return err
	}
	return c.unreached(ctx, err, time.Time{})
}

// unreached is Unreached for a call that has waited for a connection since began.
func (c *Client) unreached(ctx context.Context, err error, began time.Time) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, errNoConnection) {
		return err
	}
	if down := c.conn.Down(); !down.IsZero() {
		began = down
	}
	without := ""
	if d := time.Since(began); !began.IsZero() && d > 0 {
		without = fmt.Sprintf(" for %v", d.Round(time.Millisecond))
	}
	text := fmt.Sprintf("%s; tried: %s", without, strings.Join(c.conn.Servers, ", "))
	switch last := c.conn.LastFailure(); {
	case errors.Is(last, zk.ErrAuthFailed):
		return fmt.Errorf("%w (%w%s; last attempt: %w)", err, errNoConnection, text, last)
	case last != nil: // as text: the error must not match the end of another ctx
		text += "; last attempt: " + last.Error()
	}
	return fmt.Errorf("%w (%w%s)", err, errNoConnection, text)
}
