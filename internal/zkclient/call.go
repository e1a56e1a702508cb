package zkclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
)

// An attempt is a request that is sent until a server answers it: next, send, outcome, and next
// again unless the outcome is a result. See await.
type attempt struct {
	client  *Client
	ctx     context.Context
	session int64  // of the request, or AnySession
	op      string // for observers

	in    int64     // the session of the connection when next returned
	since time.Time // when the request was last sent, or began to wait for a connection
	tries int       // pauses in a row
	cause error     // why the last request was not answered; nil: none was sent, or it was
}

func (c *Client) attempt(ctx context.Context, session int64, op string) *attempt {
	return &attempt{client: c, ctx: ctx, session: session, op: op}
}

const longestPause = 100 * time.Millisecond

// next returns when the request may be sent: when the connection is up, and if the last request was
// not answered, after a pause. It returns ErrOver if the connection is up in another session,
// ErrClosed, or ctx's error, explained.
func (a *attempt) next() error {
	conn := a.client.conn
	for pause := a.cause != nil; ; pause = false {
		changed := conn.Changed()
		a.in = conn.Up()
		err := Ended(a.ctx)
		switch {
		case err != nil:
			return a.explain(err)
		case conn.IsClosed():
			return ErrClosed
		case pause:
			a.pause(changed)
			continue
		case a.in == 0:
			if a.since.IsZero() {
				a.since = time.Now()
			}
			select {
			case <-changed:
			case <-a.ctx.Done():
			}
			continue
		case a.session != AnySession && a.session != a.in:
			return ErrOver
		}
		if retried := a.client.retried; retried != nil && a.cause != nil {
			retried(a.op, a.cause)
		}
		a.since, a.cause = time.Now(), nil
		return nil
	}
}

// pause waits until the connection changes, but not for long.
func (a *attempt) pause(changed <-chan struct{}) {
	timer := time.NewTimer(min(time.Millisecond<<min(a.tries, 20), longestPause))
	defer timer.Stop()
	a.tries++
	select {
	case <-timer.C:
	case <-changed:
		a.tries = 0
	case <-a.ctx.Done():
	}
}

// An outcome is what the error of a request means for it.
type outcome int

const (
	done    outcome = iota // the server did it
	refused                // the server answered, and did nothing
	unsent                 // the server did nothing; sending it again may help
	unknown                // the server may have done it
)

// outcome records the error of the request, and returns what it means.
func (a *attempt) outcome(err error) outcome {
	o := outcomeOf(err)
	if o == unsent || o == unknown {
		a.cause = err
	}
	return o
}

func outcomeOf(err error) outcome {
	switch err {
	case nil:
		return done
	case wire.ErrUnsent, ErrOver, zk.ErrSessionExpired, zk.ErrSessionMoved, wire.Throttled:
		return unsent
	case wire.Code(-12):
		// There is no such session: the request arrived after the session ended and before its
		// connection was closed.
		return unsent
	case wire.Code(-1), wire.Code(-2), wire.Code(-3), wire.Code(-4), wire.Code(-7):
		return unknown // the server does not know the outcome
	}
	var code wire.Code
	switch {
	case errors.Is(err, wire.ErrNoAnswer):
		return unknown // its text may say that other requests were refused
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNotEmpty),
		errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrBadArguments),
		errors.Is(err, zk.ErrAPIError), errors.As(err, &code):
		return refused
	}
	return unknown // zk.ErrConnectionClosed, for example
}

// explain returns the error of a request whose ctx is canceled, with the reason why no server has
// answered.
func (a *attempt) explain(err error) error {
	if code, ok := a.cause.(wire.Code); ok { // not an answer that would help the caller, but its text does
		return fmt.Errorf("%w: %w: %w", err, wire.ErrNoAnswer, code)
	}
	return a.client.explainSilence(a.ctx, err, a.since)
}

// await sends a request until a server answers it, and returns the answer, which may be a refusal.
// The request must be safe to repeat. It returns ErrOver if the session is over.
func await[T any](ctx context.Context, c *Client, session int64, op string, send func() (T, error)) (T, error) {
	for a := c.attempt(ctx, session, op); ; {
		if err := a.next(); err != nil {
			var none T
			return none, err
		}
		value, err := send()
		if o := a.outcome(err); o == done || o == refused {
			return value, err
		}
	}
}

// ask is await for the locks' requests.
func (c *Client) ask(ctx context.Context, session int64, op string, r wire.Request) (wire.Reply, error) {
	return await(ctx, c, session, op, func() (wire.Reply, error) { return c.conn.Ask(ctx, session, r) })
}

// Session waits until there is a session and returns its id, which is never 0.
func (c *Client) Session(ctx context.Context) (int64, error) {
	a := c.attempt(ctx, AnySession, "")
	if err := a.next(); err != nil {
		return 0, err
	}
	return a.in, nil
}

// patience is how long a healthy server may take to answer.
const patience = 50 * time.Millisecond

// ExplainSilence returns the error of a call whose ctx was canceled while it waited for an event.
// If no server answers, the error matches wire.ErrNoAnswer and says why: there is no connection,
// the servers refuse the credentials (zk.ErrAuthFailed), the server is overloaded and drops
// requests, or it is silent. ExplainSilence returns other errors as they are.
func (c *Client) ExplainSilence(ctx context.Context, err error) error {
	return c.explainSilence(ctx, err, time.Time{})
}

// explainSilence is ExplainSilence for a call that has waited for a connection or for an answer
// since then.
func (c *Client) explainSilence(ctx context.Context, err error, since time.Time) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, wire.ErrNoAnswer) {
		return err
	}
	last := c.conn.LastFailure()
	refused := errors.Is(last, zk.ErrAuthFailed)
	silent, down := c.conn.Silence()
	if down || since.IsZero() {
		since = silent
	}
	long := ""
	if !since.IsZero() {
		long = fmt.Sprintf(" for %v", time.Since(since).Round(time.Millisecond))
	}
	var why error
	switch {
	case refused, down:
		why = fmt.Errorf("no connection%s; tried: %s", long, strings.Join(c.conn.Servers(), ", "))
		if refused {
			why = fmt.Errorf("%w; last attempt: %w", why, last)
		} else if last != nil { // as text: the error must not match the end of another ctx
			why = fmt.Errorf("%w; last attempt: %v", why, last)
		}
	case c.conn.Dropped.Load():
		why = wire.Throttled
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
	since, _ := c.conn.Silence()
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// Ended returns nil until ctx is canceled. Then it returns an error that matches ctx's error and
// its cause.
//
// If the cause is the state of a hold (ErrLost, ErrReleased, ErrBusy), the error has it as text
// only. ctx may be the context of another hold. If the error of a Release matched the loss of that
// other hold, the caller would believe that the hold it releases was lost.
func Ended(ctx context.Context) error {
	hold.NeedContext(ctx)
	err := ctx.Err()
	if err == nil {
		return nil
	}
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, err):
		return err
	case errors.Is(cause, hold.ErrLost), errors.Is(cause, hold.ErrReleased), errors.Is(cause, hold.ErrBusy):
		return fmt.Errorf("%w: %v", err, cause)
	default:
		return fmt.Errorf("%w: %w", err, cause)
	}
}
