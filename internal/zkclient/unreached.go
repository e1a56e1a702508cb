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
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, errNoConnection) {
		return err
	}
	if down := c.link.Down(); !down.IsZero() {
		began = down
	}
	without := ""
	if d := time.Since(began); !began.IsZero() && d > 0 {
		without = fmt.Sprintf(" for %v", d.Round(time.Millisecond))
	}
	return fmt.Errorf("%w (%w%s; tried: %s)", err, errNoConnection, without, strings.Join(c.link.Servers, ", "))
}
