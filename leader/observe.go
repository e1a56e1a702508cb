package leader

import (
	"context"
	"iter"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
)

// Leader returns the member whose node is first in the queue. The caller need not be a candidate.
// The error matches [ErrNoLeader] if the queue is empty.
//
// It sends a quorum request before it reads, and reads on the same connection. So it never returns
// a leader that had left before the call, even if the server lags behind the others or is cut off
// from them. The leader may have left when Leader returns: only [zklocks.Hold.Multi] of the leader
// itself is safe from that. A leader whose process has died is returned until its session expires.
//
// The other errors are ctx's; zk.ErrClosing; zk.ErrNoAuth if the client lacks READ on the directory
// or on the leader's node; and what is wrong with the arguments of New.
func (e *Election) Leader(ctx context.Context) (zklocks.Member, error) {
	e = e.made()
	first, err := e.queue.First(ctx)
	if err == nil && first.Path == "" {
		err = ErrNoLeader
	}
	if err != nil {
		return zklocks.Member{}, e.queue.Wrap("leader of", err)
	}
	return zklocks.Member(first), nil
}

// View is a state of the election, as [Election.Observe] yields it.
type View struct {
	Leader  zklocks.Member // the last known leader; the zero Member, whose Path is empty, if there is none
	Current bool           // whether a quorum has confirmed Leader within the session timeout
}

// Observe yields a view of the leader. It yields another view when the leader changes, when the
// leader's data change (see Proclaim), and when the view becomes current or ceases to be. The
// caller need not be a candidate. If changes follow each other quickly, Observe may skip some, but
// never the last. It yields nothing before a server has answered.
//
// A view is current if no later change is known when it is yielded, the connection is up, and a
// quorum has confirmed the view within the session timeout. Observe yields the last view again,
// with Current false, when
//   - the connection is lost,
//   - the confirmation is older than the session timeout, or
//   - a change is known, and the new state could not be read within the session timeout.
//
// Each current view was read, and a quorum has confirmed it after that. So a leader that was
// replaced more than a session timeout ago is never shown as current.
//
// Observe does not poll: it sets a watch on the leader's node, or on the directory while there is
// no leader. While it runs, the connection sends heartbeats, as for a holder. While the body of the
// loop runs, Observe cannot yield a change, so a slow body acts on an old view.
//
// The sequence ends when the loop is left, or with an error, which is yielded with the last known
// leader:
//   - ctx's error;
//   - zk.ErrClosing if the connection was closed;
//   - zk.ErrNoAuth if the client lacks READ on the directory or on the leader's node;
//   - what is wrong with the arguments of New.
//
// A server withholds the events of a node from a client that lacks READ on it. If the right is
// revoked while a view is shown, the view remains current until the next recheck: 5 s after the
// view, then after another 10 s, 20 s, ...
func (e *Election) Observe(ctx context.Context) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		var last View
		e := e.made()
		err := e.queue.Follow(ctx, func(f queue.Front) bool {
			last = View{zklocks.Member(f.Member), f.Current}
			return yield(last, nil)
		})
		if err != nil {
			yield(View{Leader: last.Leader}, e.queue.Wrap("observe", err))
		}
	}
}
