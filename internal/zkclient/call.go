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

// Uninterruptible returns a context whose cancellation is checked only between calls of the zk
// client. It is for goroutines on which no caller waits. They call directly instead of starting a
// goroutine for each call.
func Uninterruptible(ctx context.Context) context.Context { return uninterruptible{ctx} }

type uninterruptible struct{ context.Context }

// callCtx makes a call and waits for it until ctx is canceled. The zk client's calls take no
// context and may last for many seconds, so the call runs on a new goroutine. If ctx is canceled
// first, late yields the answer when it arrives. If ctx is never canceled or is Uninterruptible,
// callCtx calls directly, which saves two goroutine switches.
func callCtx[T any](ctx context.Context, call func() (T, error)) (a answer[T], late <-chan answer[T]) {
	if _, stays := ctx.(uninterruptible); stays || ctx.Done() == nil {
		value, err := call()
		return answer[T]{value, err}, nil
	}
	c := make(chan answer[T], 1) // buffered: the caller may have returned
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

// An outcome is what an error of the zk client means for the request.
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
	case errors.Is(err, wire.ErrNoAnswer): // its text may say that other requests were refused
		return unknown
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved):
		return unsent
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNotEmpty),
		errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrBadArguments),
		errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrShortBuffer), errors.Is(err, zk.ErrAPIError):
		return refused
	}
	// The zk client has no names for some of the server's codes. They are refusals (quota exceeded,
	// unimplemented), except the following: the server does not know the outcome, or has not begun.
	switch codeOf(err) {
	case 0, -1, -2, -3, -4, -7:
		return unknown
	case -12:
		// There is no such session: the request arrived after the session ended and before its
		// connection was closed.
		return unsent
	case codeThrottled: // the server has not forwarded the request
		return unsent
	}
	return refused
}

// codeThrottled means that the server, being overloaded, has dropped the request.
const codeThrottled = -127

// codeOf returns the server's code in an error for which the zk client has no name, and 0 for other
// errors.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	text, _ := strings.CutPrefix(err.Error(), "unknown error: ")
	code, _ := strconv.Atoi(text)
	return code
}

// proves reports whether an answer to a Multi shows that the leader has asked the quorum.
func proves(err error) bool {
	return err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) ||
		errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty) ||
		errors.Is(err, zk.ErrNoChildrenForEphemerals) || errors.Is(err, zk.ErrNoAuth)
}

// Overloaded reports whether the server, being overloaded, has dropped the request.
func Overloaded(err error) bool { return codeOf(err) == codeThrottled }

// meanings describes codes to the caller.
var meanings = map[int]string{
	-119:          "the server only reads",
	-120:          "the server keeps this session to itself, without ephemeral nodes: localSessionsEnabled without localSessionsUpgradingEnabled",
	-125:          "a quota of the path is used up",
	codeThrottled: "the server is overloaded and has dropped the request",
}

// DescribeCode adds a description to an error for which the zk client has only a number or an
// unclear text.
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
	untold func() // calls retried; nil: this is the first request, or retried was called
}

func (c *Client) retry() *retry { return &retry{client: c} }

const longestPause = 100 * time.Millisecond

// wait pauses, a little longer each time. It returns an error if a retry cannot help: ctx is
// canceled or the connection is closed.
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

// again waits, as wait does, after a request that was not answered. The caller's loop may end
// before it sends the request again, so sends reports the retry.
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

// sends is called right before each request. It reports whether it has called retried.
func (r *retry) sends() (told bool) {
	if r.untold == nil {
		return false
	}
	r.untold()
	r.untold = nil
	return true
}

// ready waits until the connection is up. It returns ErrOver if the connection is up in another
// session.
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

// connected waits until the connection has a session, or ctx is canceled. A request that is made
// without a session waits in the queue of the zk client and cannot be withdrawn: a thousand
// canceled calls would leave a thousand requests. After connected the next call may still fail.
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

// awaitIn repeats a call until a server answers, and returns the answer, which may be a refusal. It
// returns ErrOver if the answer belongs to another session. The call must be safe to repeat.
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

// results is the answer to a Multi.
type results struct {
	replies []zk.MultiResponse
	failed  int // the index of the operation that the server refused, or NotDone
}

// multi is zk.Conn.Multi, but returns the error of the operation that failed.
func (c *Client) multi(ops ...any) (results, error) {
	replies, err := c.conn.Multi(ops...)
	for i, r := range replies {
		// Operations before the failed operation have code 0. Operations behind it have "runtime
		// inconsistency" (rolled back), for which the zk client has no name.
		if r.Error != nil && outcomeOf(r.Error) == refused {
			return results{replies, i}, r.Error
		}
	}
	return results{replies, NotDone}, err
}

// Transact returns these instead of the index of the operation that failed.
const (
	NotDone    = -1 // the transaction was not done
	Unanswered = -2 // it may have been done
)

// Transact runs the caller's transaction at most once. If the server has dropped it, Transact sends
// it again. If the server may have executed it, Transact does not. Right before it sends the
// transaction, Transact calls the function may. If that returns an error, Transact returns the
// error and sends nothing. failed is the index of the operation that the server refused, and then
// the server has executed none; or it is one of the constants above.
func (c *Client) Transact(ctx context.Context, may func() error, ops ...any) (replies []zk.MultiResponse, failed int, err error) {
	for retry := c.retry(); ; {
		if err := c.connected(ctx); err != nil {
			return nil, NotDone, err
		}
		err := may()
		if err == nil && retry.sends() { // sends may have taken long
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
