package zkclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// answer is what a call of the client came to.
type answer[T any] struct {
	value T
	err   error
}

// goCall makes a call on a goroutine of its own, for no call of the client takes
// a context, and one that is given up can live on for many seconds.
func goCall[T any](call func() (T, error)) <-chan answer[T] {
	c := make(chan answer[T], 1) // nobody may be left to receive it
	go func() {
		value, err := call()
		c <- answer[T]{value, err}
	}()
	return c
}

// Uninterruptible is a context whose end is obeyed between calls of the client only. Whoever
// has a goroutine that nobody waits for need not leave a call that is under way, and
// saves a goroutine for each.
func Uninterruptible(ctx context.Context) context.Context { return uninterruptible{ctx} }

type uninterruptible struct{ context.Context }

// hurried reports whether ctx may end while a call is under way, and that matters.
func interruptible(ctx context.Context) bool {
	_, not := ctx.(uninterruptible)
	return !not && ctx.Done() != nil
}

// callCtx makes a call and waits for it as long as ctx lives. Where nobody is in a hurry
// it needs no goroutine, which is two hops less. If ctx ends first, late is where
// the answer comes later.
func callCtx[T any](ctx context.Context, call func() (T, error)) (a answer[T], late <-chan answer[T]) {
	if !interruptible(ctx) {
		value, err := call()
		return answer[T]{value, err}, nil
	}
	c := goCall(call)
	select {
	case a = <-c:
		return a, nil
	case <-ctx.Done():
		return a, c
	}
}

// outcome is what an error of the client says about the request.
type outcome int

const (
	done    outcome = iota // the server did it
	refused                // the server answered, and did nothing
	unsent                 // the server did nothing; asking again may help
	unknown                // it may have been done
)

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved):
		return unsent
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNotEmpty),
		errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrBadArguments),
		errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrShortBuffer), errors.Is(err, zk.ErrAPIError):
		return refused
	}
	// The client has no names for some of the server's codes. All of them are
	// answers (quota exceeded, unimplemented) but those by which a server says
	// that it does not know what became of the request, or that it has not
	// begun with it.
	if code, ok := strings.CutPrefix(err.Error(), "unknown error: "); ok {
		switch code {
		case "-1", "-2", "-3", "-4", "-7":
			return unknown
		case "-12":
			// There is no such session: the request came between its end and
			// that of its connection. It proves nothing but that.
			return unsent
		case "-127":
			// The server has too much to do and has thrown the request away. No
			// other server has heard of it.
			return unsent
		}
		return refused
	}
	return unknown
}

// proves reports whether an answer comes from the leader, with a quorum behind it. A single
// server gives all others by itself, also one that is cut off from the leader. multi is
// whether a Multi was asked: with zookeeper.enableEagerACLCheck each server refuses a
// plain create, write or delete with NoAuth or InvalidACL before the leader hears of it.
func proves(err error, multi bool) bool {
	return err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) ||
		errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty) ||
		errors.Is(err, zk.ErrNoChildrenForEphemerals) || multi && errors.Is(err, zk.ErrNoAuth)
}

// overloaded is the answer of a server that has thrown the request away.
func overloaded(err error) bool { return err != nil && err.Error() == "unknown error: -127" }

// DescribeCode says in words what the client has but a number for.
func DescribeCode(err error) error {
	if err == nil {
		return nil
	}
	switch err.Error() {
	case "unknown error: -119":
		return fmt.Errorf("the server only reads (%w)", err)
	case "unknown error: -125":
		return fmt.Errorf("a quota of the path is used up (%w)", err)
	case "unknown error: -127":
		return fmt.Errorf("the server is overloaded and has dropped the request (%w)", err)
	}
	return err
}

// retry paces something that is asked again until it is answered.
type retry struct {
	client *Client
	tries  int
}

func (c *Client) retry() *retry { return &retry{client: c} }

const longestPause = 100 * time.Millisecond

// wait pauses a little longer each time. It returns an error when there is no
// point in asking again: ctx has ended or the connection was closed.
func (r *retry) wait(ctx context.Context) error {
	changed := r.client.link.Changed()
	if r.client.link.IsClosed() {
		return ErrClosed
	}
	timer := time.NewTimer(min(time.Millisecond<<min(r.tries, 20), longestPause))
	r.tries++
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return Ended(ctx)
	case <-changed:
		r.tries = 0
	case <-timer.C:
	}
	return nil
}

// again is wait for a request that got no answer: its trace is told.
func (r *retry) again(ctx context.Context, op string, cause error) error {
	if err := r.wait(ctx); err != nil {
		if overloaded(cause) && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", err, DescribeCode(cause)) // there is a connection: ctx alone does not say what is wrong
		}
		return err
	}
	if t := r.client.trace; t != nil {
		t.Retried(op, DescribeCode(cause))
	}
	return nil
}

// connected waits until the connection has a session. What is asked while it has
// none waits in the client's queue, where it cannot be taken back: of a thousand
// callers that come and give up during an outage, a thousand requests would be
// left. It does not mean that the next call succeeds.
func (c *Client) connected(ctx context.Context) error {
	var began time.Time
	for retry := c.retry(); ; {
		if c.link.IsClosed() {
			return ErrClosed // for a while, the client's state does not say so
		}
		if c.conn.State() == zk.StateHasSession {
			return nil
		}
		if began.IsZero() {
			began = time.Now()
		}
		if err := retry.wait(ctx); err != nil {
			return c.unreached(ctx, err, began)
		}
	}
}

// await makes a call again and again until the server answers, and returns the
// answer, be it a refusal. It is for calls that may be made any number of times.
func await[T any](ctx context.Context, c *Client, op string, call func() (T, error)) (T, error) {
	var none T
	retry := c.retry()
	for {
		if err := Ended(ctx); err != nil {
			return none, err
		}
		if err := c.connected(ctx); err != nil {
			return none, err
		}
		a, late := callCtx(ctx, call)
		if late != nil {
			return none, Ended(ctx)
		}
		if o := outcomeOf(a.err); o == done || o == refused {
			return a.value, a.err
		}
		if err := retry.again(ctx, op, a.err); err != nil {
			return none, err
		}
	}
}

// multi is zk.Conn.Multi with one error: that of the operation that failed.
func (c *Client) multi(ops ...any) ([]zk.MultiResponse, error) {
	replies, err := c.conn.Multi(ops...)
	for _, r := range replies {
		// An operation in front of or behind the one that failed has the
		// code of no error, or of "rolled back", which the client does not
		// know by name.
		if r.Error != nil && outcomeOf(r.Error) == refused {
			return nil, r.Error
		}
	}
	if err != nil {
		return nil, err
	}
	for _, r := range replies {
		if r.Error != nil {
			return nil, r.Error
		}
	}
	return replies, nil
}

// What Transact returns as the index of the operation that failed, if it is none of them.
const (
	NotDone    = -1 // the transaction has not taken place
	Unanswered = -2 // it may have
)

// Transact makes a transaction of the caller's, once: what the server has thrown away is sent again,
// what may have been done is not. may is asked right before it is sent, and forbids that by an error.
// failed is the index of the operation that was refused, and then none was done; or one of the above.
func (c *Client) Transact(ctx context.Context, may func() error, ops ...any) (replies []zk.MultiResponse, failed int, err error) {
	for retry := c.retry(); ; {
		if err := Ended(ctx); err != nil {
			return nil, NotDone, err
		}
		if err := c.connected(ctx); err != nil {
			return nil, NotDone, err
		}
		if err := may(); err != nil {
			return nil, NotDone, err
		}
		a, late := callCtx(ctx, func() ([]zk.MultiResponse, error) { return c.conn.Multi(ops...) })
		if late != nil {
			return nil, Unanswered, Ended(ctx)
		}
		for i, r := range a.value {
			if r.Error != nil && outcomeOf(r.Error) == refused {
				return a.value, i, r.Error
			}
		}
		switch o := outcomeOf(a.err); {
		case o == done && len(a.value) != len(ops):
			return nil, Unanswered, fmt.Errorf("%d replies to %d operations", len(a.value), len(ops))
		case o == done:
			return a.value, NotDone, nil
		case o == refused && !errors.Is(a.err, zk.ErrAPIError): // that is one of the client's, which cannot read the reply
			return nil, NotDone, a.err
		case o != unsent:
			return nil, Unanswered, a.err
		}
		if err := retry.again(ctx, "transaction", a.err); err != nil {
			return nil, NotDone, err
		}
	}
}

// quorumCheck runs a request that needs the quorum and changes nothing, once; an answer of the leader
// shows that the session was known to the ensemble when the request was sent. A Sync would not do:
// a leader that has been deposed without knowing still answers it.
func (c *Client) quorumCheck(session int64, checks ...any) ([]zk.MultiResponse, error) {
	sent := time.Now()
	replies, err := c.multi(checks...)
	c.noteQuorumReply(session, sent, err, true)
	return replies, err
}

// noteQuorumReply notes the answer to a request that needs the quorum, a Multi or not.
func (c *Client) noteQuorumReply(session int64, sent time.Time, err error, multi bool) {
	if proves(err, multi) && c.In(session) {
		c.link.Proved(session, sent)
	}
}

// barrier is the cheapest of these requests: the root always exists.
var barrier = &zk.CheckVersionRequest{Path: "/", Version: -1}
