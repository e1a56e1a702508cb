package leader

import (
	"context"
	"iter"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
)

// Leader returns the leader, also to a process that is not a candidate: the member whose node is
// first in the queue. The error matches [ErrNoLeader] if there is none.
//
// It asks a quorum of the ensemble before it reads, and reads on the same connection. So a leader
// that had gone before the call is not returned, even if the server is behind the others or cut off
// from them. The leader may have gone when Leader returns: only [zklocks.Hold.Multi] of the leader
// itself is safe from that. A leader whose process has died is returned until its session expires.
//
// The other errors are ctx's; zk.ErrClosing; zk.ErrNoAuth without the right READ on the directory
// and on the leader's node; and what is wrong with the arguments of New.
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

// View is what [Election.Observe] knows of the leader.
type View struct {
	Leader  zklocks.Member // the zero Member, which has no Path, if there is none
	Current bool           // else Leader is the last known one
}

// Observe yields the leader, also to a process that is not a candidate, and again after each change
// of the leader, of its data (see Proclaim), and of whether the view is current. If changes follow
// each other quickly, some may be left out, but never the last. Before a server has answered,
// nothing is yielded.
//
// A view is current if no later change is known when it is yielded, the connection is up, and a
// quorum has confirmed the view within the session timeout. The last view is yielded again, with
// Current false, when
//   - the connection is lost,
//   - the confirmation is older than the session timeout, or
//   - a change is known, and the new state could not be read within the session timeout.
//
// The next current view is read after that, and confirmed by a quorum. So a leader that was
// replaced more than a session timeout ago is never shown as current.
//
// Observe does not poll: it sets a watch on the leader's node, or on the directory while there is
// no leader. While it runs, the connection sends heartbeats, as for a holder. While the body of the
// loop runs, no change is noticed, so a slow body acts on old views.
//
// The sequence ends when the loop is left, or with an error, which is yielded with the last view:
//   - ctx's error;
//   - zk.ErrClosing if the connection was closed;
//   - zk.ErrNoAuth if the client lacks READ on the directory or on the leader's node;
//   - what is wrong with the arguments of New.
//
// Servers withhold the events of a node from a client that may not read it. If the right is revoked
// while a view is shown, the view remains current until the next recheck. Rechecks follow 5 s after
// the view, then after another 10 s, 20 s, ...
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
