package zkclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
)

// answer is the result of a call of the zk client.
type answer[T any] struct {
	value T
	err   error
}

// Uninterruptible returns a context whose end is checked only between calls of the zk client. A
// goroutine on which no caller waits need not abandon a call that is under way. It calls directly
// instead of starting a goroutine for each call.
func Uninterruptible(ctx context.Context) context.Context { return uninterruptible{ctx} }

type uninterruptible struct{ context.Context }

// callCtx makes a call and waits for it until ctx ends. It makes it on a new goroutine, because no
// call of the zk client takes a context, and a call whose caller has given up may take many more
// seconds. If ctx never ends or is Uninterruptible it needs no goroutine, which saves two goroutine
// switches. If ctx ends first, late yields the answer when it arrives.
func callCtx[T any](ctx context.Context, call func() (T, error)) (a answer[T], late <-chan answer[T]) {
	if _, stays := ctx.(uninterruptible); stays || ctx.Done() == nil {
		value, err := call()
		return answer[T]{value, err}, nil
	}
	c := make(chan answer[T], 1) // buffered: the caller may have given up
	go func() {
		value, err := call()
		c <- answer[T]{value, err}
	}()
	select {
	case a = <-c:
		return a, nil
	case <-ctx.Done():
		return a, c
	}
}

// Finish makes a call to its end whatever ctx says; ctx bounds the wait for the result. If ctx ends
// first, its error comes with what goes on in the background.
func (c *Client) Finish(ctx context.Context, goingOn string, call func() error) error {
	began := time.Now()
	a, late := callCtx(ctx, func() (struct{}, error) { return struct{}{}, call() })
	if late != nil {
		return c.GoesOn(ctx, began, goingOn)
	}
	return a.err
}

// GoesOn is the error of a call whose ctx has ended and that goes on.
func (c *Client) GoesOn(ctx context.Context, began time.Time, goingOn string) error {
	return fmt.Errorf("%w (%s in the background)", c.Unreached(ctx, Ended(ctx), began), goingOn)
}

// outcome is what an error of the zk client says about the request.
type outcome int

const (
	done    outcome = iota // the server did it
	refused                // the server answered, and did nothing
	unsent                 // the server did nothing; sending it again may help
	unknown                // the server may have done it
)

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, wire.ErrNoAnswer): // it may say that other requests were refused
		return unknown
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved):
		return unsent
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNotEmpty),
		errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrBadArguments),
		errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrShortBuffer), errors.Is(err, zk.ErrAPIError):
		return refused
	}
	// The zk client has no names for some of the server's codes. All of them are answers (quota
	// exceeded, unimplemented) except those with which a server says that it does not know what
	// became of the request, or that it has not started it.
	switch codeOf(err) {
	case 0, -1, -2, -3, -4, -7:
		return unknown
	case -12:
		// There is no such session: the request arrived after the session ended and before its
		// connection was closed. It proves nothing else.
		return unsent
	case codeThrottled: // the server has not forwarded the request
		return unsent
	}
	return refused
}

// codeThrottled says that the server has dropped the request because of its load.
const codeThrottled = -127

// codeOf returns the server's code in an error for which the zk client has no name; 0: the error is
// another.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	text, _ := strings.CutPrefix(err.Error(), "unknown error: ")
	code, _ := strconv.Atoi(text)
	return code
}

// proves reports whether an answer to a Multi comes from the leader, with a quorum.
func proves(err error) bool {
	return err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) ||
		errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty) ||
		errors.Is(err, zk.ErrNoChildrenForEphemerals) || errors.Is(err, zk.ErrNoAuth)
}

// Overloaded reports whether the server has dropped the request because of its load.
func Overloaded(err error) bool { return codeOf(err) == codeThrottled }

// meanings are what codes say to the caller.
var meanings = map[int]string{
	-119:          "the server only reads",
	-120:          "the server keeps this session to itself, without ephemeral nodes: localSessionsEnabled without localSessionsUpgradingEnabled",
	-125:          "a quota of the path is used up",
	codeThrottled: "the server is overloaded and has dropped the request",
}

// DescribeCode adds a description to an error for which the zk client has only a number, or words
// that do not say what the caller did.
func DescribeCode(err error) error {
	meaning := meanings[codeOf(err)]
	if err == zk.ErrShortBuffer {
		meaning = "the request is larger than the client can send"
	}
	if meaning == "" {
		return err
	}
	return fmt.Errorf("%s (%w)", meaning, err)
}

// retry paces a request that is repeated until a server answers it.
type retry struct {
	client *Client
	tries  int
	untold func() // calls retried; nil: this is the first request, or it was called
}

func (c *Client) retry() *retry { return &retry{client: c} }

const longestPause = 100 * time.Millisecond

// wait pauses a little longer each time. It returns an error if a retry cannot help: ctx has ended
// or the connection was closed.
func (r *retry) wait(ctx context.Context) error {
	changed := r.client.conn.Changed()
	if r.client.conn.IsClosed() {
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

// again is wait for a request that was not answered. The loop may end before it sends another one,
// so it is sends that reports the retry.
func (r *retry) again(ctx context.Context, op string, cause error) error {
	if err := r.wait(ctx); err != nil {
		if codeOf(cause) != 0 && ctx.Err() != nil {
			return fmt.Errorf("%w: %w: %w", err, wire.ErrNoAnswer, DescribeCode(cause))
		}
		return err
	}
	if retried := r.client.retried; retried != nil {
		r.untold = func() { retried(op, DescribeCode(cause)) }
	}
	return nil
}

// sends is called right before each request. It returns whether it has reported a retry.
func (r *retry) sends() (told bool) {
	if r.untold == nil {
		return false
	}
	r.untold()
	r.untold = nil
	return true
}

// ready returns when the request can be sent: the connection is up, in the given session.
func (r *retry) ready(ctx context.Context, session int64) error {
	if err := r.client.connected(ctx); err != nil {
		return err
	}
	if session != AnySession && !r.client.In(session) {
		return ErrOver
	}
	r.sends()
	return nil
}

// connected waits until the connection has a session, unless ctx has ended. Requests made while it
// has none wait in the queue of the zk client and cannot be withdrawn: if a thousand callers came
// and gave up during an outage, a thousand requests would be left. connected does not guarantee
// that the next call succeeds.
func (c *Client) connected(ctx context.Context) error {
	if err := Ended(ctx); err != nil {
		return err
	}
	var began time.Time
	for retry := c.retry(); ; {
		if c.conn.IsClosed() {
			return ErrClosed // for a while, the zk client's state does not say so
		}
		if c.conn.State() == zk.StateHasSession {
			return nil
		}
		if began.IsZero() {
			began = time.Now()
		}
		if err := retry.wait(ctx); err != nil {
			return c.Unreached(ctx, err, began)
		}
	}
}

// await is awaitIn in whichever session is current.
func await[T any](ctx context.Context, c *Client, op string, call func() (T, error)) (T, error) {
	return awaitIn(ctx, c, AnySession, op, call)
}

// awaitIn repeats a call until the server answers, and returns the answer, which may be a refusal.
// It returns ErrOver if the answer did not come in the given session. It is only for calls that are
// safe to repeat.
func awaitIn[T any](ctx context.Context, c *Client, session int64, op string, call func() (T, error)) (T, error) {
	var none T
	for retry := c.retry(); ; {
		if err := retry.ready(ctx, session); err != nil {
			return none, err
		}
		sent := time.Now()
		a, late := callCtx(ctx, call)
		if late != nil {
			return none, c.Unreached(ctx, Ended(ctx), sent)
		}
		if o := outcomeOf(a.err); o == done || o == refused {
			if session != AnySession && !c.In(session) {
				return none, ErrOver
			}
			return a.value, a.err
		}
		if err := retry.again(ctx, op, a.err); err != nil {
			return none, c.Unreached(ctx, err, sent)
		}
	}
}

// results are what a server answers to a Multi.
type results struct {
	replies []zk.MultiResponse
	failed  int // the index of the operation that the server refused, or NotDone
}

// multi is zk.Conn.Multi with one error: that of the operation that failed.
func (c *Client) multi(ops ...any) (results, error) {
	replies, err := c.conn.Multi(ops...)
	for i, r := range replies {
		// The operations before the one that failed have code 0, those after it have "runtime
		// inconsistency" (rolled back), for which the zk client has no name.
		if r.Error != nil && outcomeOf(r.Error) == refused {
			return results{replies, i}, r.Error
		}
	}
	return results{replies, NotDone}, err
}

// What Transact returns as the index of the operation that failed, if it is none of them.
const (
	NotDone    = -1 // the transaction was not done
	Unanswered = -2 // it may have been done
)

// Transact runs the caller's transaction at most once: if the server has dropped it Transact sends
// it again, if the server may have done it Transact does not. Transact calls may right before it
// sends the transaction; an error of may prevents that. failed is the index of the operation that
// the server refused, in which case it did none of them; or one of the constants above.
func (c *Client) Transact(ctx context.Context, may func() error, ops ...any) (replies []zk.MultiResponse, failed int, err error) {
	for retry := c.retry(); ; {
		if err := c.connected(ctx); err != nil {
			return nil, NotDone, err
		}
		err := may()
		if err == nil && retry.sends() { // which may have taken its time
			err = may()
		}
		if err != nil {
			return nil, NotDone, err
		}
		sent := time.Now()
		a, late := callCtx(ctx, func() (results, error) { return c.multi(ops...) })
		if late != nil {
			return nil, Unanswered, c.Unreached(ctx, Ended(ctx), sent)
		}
		replies, failed := a.value.replies, a.value.failed
		switch o := outcomeOf(a.err); {
		case o == done && len(replies) != len(ops):
			return nil, Unanswered, fmt.Errorf("%d replies to %d operations", len(replies), len(ops))
		case o == done:
			return replies, NotDone, nil
		case o == refused && !errors.Is(a.err, zk.ErrAPIError): // ErrAPIError comes from the zk client itself, which cannot decode the reply
			return replies, failed, a.err
		case o != unsent:
			return nil, Unanswered, a.err
		}
		if err := retry.again(ctx, "transaction", a.err); err != nil {
			return nil, NotDone, err
		}
	}
}

// barrier is the cheapest request that needs the quorum: the root always exists.
var barrier = &zk.CheckVersionRequest{Path: "/", Version: -1}

func aclSize(acl []zk.ACL) (size int) {
	for _, a := range acl {
		size += len(a.Scheme) + len(a.ID) + 12
	}
	return size
}

// Ended returns nil while ctx lives. After that it returns an error that matches both ctx's error
// and its cause.
//
// If the cause is the state of a lock, it is only in the text. It is the state of the hold whose
// context ended, which may be another hold than the one the caller asks about. If the error of an
// Unlock matched it, it would say that a lock was lost that was held to the end.
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
