package leader

import (
	"context"
	"errors"
	"time"

	"github.com/zklocks/zklocks"
)

// Run campaigns, calls lead each time that it is elected, and campaigns again when lead has
// returned, until ctx is canceled. It calls lead on the caller's goroutine. If lead panics, Run
// resigns and the panic continues.
//
// lead receives the term and its context. The context is canceled when ctx is canceled, when the
// term is lost, and when a client asks the leader to resign ([zklocks.Hold.ReleaseRequested]);
// context.Cause returns the reason.
//
// When lead returns, Run releases the term. If lead returned nil, or its context had been canceled,
// Run campaigns again at once, at the tail of the queue. But if lead returned nil by itself in less
// than a second, Run campaigns a second after the election, so that a function that finds nothing to
// do is not called hundreds of times a second. A shorter min of [WithBackoff] replaces the second.
//
// It is a failure if lead returns an error while its context is not canceled, or after lead has
// released the term itself. After a failure Run pauses before it campaigns again, see
// [WithBackoff]. After a term that did not fail, or that lasted longer than the longest pause, the
// pauses begin at the shortest again. Run does not return or report lead's error: log it in lead.
//
// Run resigns only when lead has returned. Until then no other process leads, unless the term is
// lost. Run waits until a server has confirmed the release or the term is lost; if ctx is canceled,
// it waits at most a second or a quarter of the session timeout, whichever is shorter. If lead has
// not returned when its term is lost, Run waits for it and does not campaign; [Election.Status] is
// then [StateOverdue].
//
// Run always returns an error. It returns every error of [Election.Campaign]: ctx's error;
// zk.ErrClosing when the connection was closed; zk.ErrNoAuth when a right is missing, also the
// right to delete its own node; and what is wrong with the arguments of New or with the directory.
// If a quota was used up and has room again, call Run again. A lost connection, an expired session
// and a deleted path do not end Run.
//
// Concurrent calls, also on one value, are separate candidates.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *zklocks.Hold) error) error {
	if lead == nil {
		panic("leader: the function is nil")
	}
	e = e.made()
	pauses := e.backoff
	for {
		var elected time.Time
		var failed, told bool
		err := zklocks.Do(ctx, func(ctx context.Context) (*zklocks.Hold, error) {
			return e.campaign(ctx, "run", true)
		}, func(_ context.Context, term *zklocks.Hold) error {
			elected = time.Now()
			failed, told = serve(ctx, term, lead)
			return nil
		})
		if err != nil && (elected.IsZero() || !errors.Is(err, zklocks.ErrLost)) {
			return err
		}
		lasted, pause := time.Since(elected), time.Duration(0)
		if !failed || lasted > pauses.max {
			pauses.last = 0
		}
		switch {
		case failed:
			pause = pauses.next()
		case !told:
			pause = min(time.Second, pauses.min) - lasted
		}
		if err := wait(ctx, pause); err != nil {
			return e.queue.Wrap("run", err)
		}
	}
}

// errRequested is the cause of a term's context that is canceled by a request to resign.
var errRequested = errors.New("the leader is asked to resign")

// serve calls lead for one term. told reports whether its context was canceled or the term was lost
// before it returned, and failed whether it returned an error otherwise.
func serve(ctx context.Context, term *zklocks.Hold, lead func(context.Context, *zklocks.Hold) error) (failed, told bool) {
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
	told = asked.Err() != nil || errors.Is(term.Err(), zklocks.ErrLost)
	return err != nil && !told, told
}
