package leader

import (
	"context"
	"errors"
	"time"

	"github.com/zklocks/zklocks"
)

// Run campaigns, calls lead each time that it is elected, and campaigns again when lead has
// returned, until ctx is canceled. It runs on the caller's goroutine, and so does lead. If lead
// panics, Run resigns and the panic continues.
//
// lead gets the term, which Run releases, and the term's context. That is canceled with ctx, when
// the term is lost, and when the leader is asked to resign ([zklocks.Hold.ReleaseRequested]);
// context.Cause says why.
//
// When lead returns, Run resigns. If lead returned nil, or its context had been canceled, Run
// campaigns at once, at the tail of the queue. If lead returns nil immediately and there is no
// other candidate, it is called again immediately.
//
// An error that lead returns while its context is not canceled, or after it has released the term
// itself, is a failure. After a failure Run pauses before it campaigns again, see [WithBackoff].
// After a term that did not fail, or that lasted longer than the longest pause, the pauses begin at
// the shortest again. Run does not return or report lead's error: log it in lead.
//
// Run resigns when lead has returned, and not before: no other process leads in the meantime unless
// the term is lost. Run waits until a server has confirmed that; if ctx is canceled, it waits at
// most a quarter of the session timeout, and at most a second. If lead has not returned when its
// term is lost, Run waits for it and does not campaign; [Election.Status] is then [StateOverdue].
//
// Run always returns an error. Every error of [Election.Campaign] is final: ctx's error;
// zk.ErrClosing when the connection was closed; zk.ErrNoAuth when a right is missing, also the
// right to delete its own node; and what is wrong with the arguments of New or with the directory.
// If a quota was used up and has room again, call Run again. A lost connection, an expired session
// and a deleted path are not errors. Without a term lead is not called.
//
// Several calls at once, also on one value, are candidates that exclude each other.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *zklocks.Hold) error) error {
	if lead == nil {
		panic("leader: the function is nil")
	}
	e = e.made()
	pauses := e.backoff
	for {
		elected, failed := time.Time{}, false
		err := zklocks.Do(ctx, func(ctx context.Context) (*zklocks.Hold, error) {
			return e.campaign(ctx, "run", true)
		}, func(_ context.Context, term *zklocks.Hold) error {
			elected = time.Now()
			failed = serve(ctx, term, lead)
			return nil
		})
		if err != nil && (elected.IsZero() || !errors.Is(err, zklocks.ErrLost)) {
			return err
		}
		if lasted := time.Since(elected); !failed || lasted > pauses.max {
			pauses.last = 0
		}
		if !failed {
			continue
		}
		if err := pauses.wait(ctx); err != nil {
			return e.queue.Wrap("run", err)
		}
	}
}

// errRequested is the cause of a context that ends because the leader was asked to resign.
var errRequested = errors.New("the leader is asked to resign")

// serve calls lead for one term. failed is whether lead has returned an error although it was not
// told to stop.
func serve(ctx context.Context, term *zklocks.Hold, lead func(context.Context, *zklocks.Hold) error) (failed bool) {
	asked, stop := context.WithCancelCause(ctx)
	defer stop(nil) // also if lead panics
	go func() {
		select {
		case <-term.ReleaseRequested():
			stop(errRequested)
		case <-asked.Done():
		}
	}()
	err := lead(term.Context(asked), term) // the outer context checks the hold each time
	told := asked.Err() != nil || errors.Is(term.Err(), zklocks.ErrLost)
	return err != nil && !told
}
