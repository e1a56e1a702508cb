package zkclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
)

// patience is how long a healthy server may take to answer.
const patience = 50 * time.Millisecond

// Unreached returns the error of a call whose ctx is canceled. If no server answers, the error
// matches wire.ErrNoAnswer and says why: there is no connection, the servers refuse the credentials
// (zk.ErrAuthFailed), the server is overloaded and drops requests, or it is silent. since is when
// the call began to wait for a connection or for an answer; zero: it waits for an event.
func (c *Client) Unreached(ctx context.Context, err error, since time.Time) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, wire.ErrNoAnswer) {
		return err
	}
	last, down, asked := c.conn.LastFailure(), c.conn.Down(), c.conn.Unanswered()
	refused := errors.Is(last, zk.ErrAuthFailed)
	lost := refused || c.conn.State() != zk.StateHasSession
	switch {
	case lost && !down.IsZero():
		since = down
	case since.IsZero():
		since = asked
	}
	long := ""
	if !since.IsZero() {
		long = fmt.Sprintf(" for %v", time.Since(since).Round(time.Millisecond))
	}
	var why error
	switch {
	case lost:
		why = fmt.Errorf("no connection%s; tried: %s", long, strings.Join(c.conn.Servers, ", "))
		if refused {
			why = fmt.Errorf("%w; last attempt: %w", why, last)
		} else if last != nil { // as text: the error must not match the end of another ctx
			why = fmt.Errorf("%w; last attempt: %v", why, last)
		}
	case c.conn.Dropped.Load():
		why = DescribeCode(errors.New("unknown error: -127"))
	case !since.IsZero() && time.Since(since) >= patience:
		why = fmt.Errorf("%s has been silent%s", c.conn.Server(), long)
	default:
		return err
	}
	return fmt.Errorf("%w: %w: %w", err, wire.ErrNoAnswer, why)
}

// Silence returns for how long the connection has been lost, or the oldest request has had no
// answer.
func (c *Client) Silence() time.Duration {
	since := c.conn.Down()
	if since.IsZero() {
		since = c.conn.Unanswered()
	}
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}
