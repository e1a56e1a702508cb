package leader

import (
	"context"
	"iter"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
)

// Leader returns the leader, also to a process that is no candidate: the member whose node is first
// in the queue. The error matches [ErrNoLeader] if there is none.
//
// It asks a quorum of the ensemble before it reads, and reads on the same connection. So a leader
// that had gone before the call is not returned, as it might be by a server that is behind the
// others or cut off from them. The leader may be gone when Leader returns, which only
// [zklocks.Hold.Multi] of the leader itself is safe from; and one whose process has died stays the
// leader until its session expires.
//
// The other errors are ctx's; zk.ErrClosing; zk.ErrNoAuth without the right READ on the directory
// and on the leader's node; and what is wrong with the arguments of New.
func (e *Election) Leader(ctx context.Context) (zklocks.Member, error) {
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

// Observe yields the leader, also to a process that is no candidate, and again after each change:
// of the leader, of its data (see Proclaim), and of whether it is current. It polls nothing but its
// rights, see below: it sets a watch on the leader's node, or on the directory while there is no
// leader. Meanwhile the connection sends heartbeats, as for a holder. Changes that come quickly may
// be left out, but never the last.
//
// A view is current if no change is known when it is yielded, the connection is up, and a quorum
// has confirmed it within the session timeout. As soon as one of the last two is over, as from the
// end of a connection on, the last view is yielded again and is not current; the next current one
// was read after that, and after a quorum has answered. So is a view of which a change is known
// that could not be read within the session timeout. So one whose leader may have been replaced for
// longer than that is never current. Before the first answer nothing is yielded.
//
// The sequence ends when the loop is left, and otherwise with an error, beside the last view:
// ctx's; zk.ErrClosing; zk.ErrNoAuth without the right READ on the directory and on the leader's
// node; or what is wrong with the arguments of New. Servers withhold the events of a node from
// clients that may not read it: if the right is taken away while a view is shown, the view stays
// current until Observe reads again, after five seconds, and after about as long as it has been
// shown. While the body of the loop runs no change is
// noticed, so a slow one acts on old views. A watch that is not needed any more stays with the
// connection, where the next call uses it.
func (e *Election) Observe(ctx context.Context) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		var last View
		err := e.queue.Follow(ctx, func(f queue.Front) bool {
			last = View{zklocks.Member(f.Member), f.Current}
			return yield(last, nil)
		})
		if err != nil {
			yield(View{Leader: last.Leader}, e.queue.Wrap("observe", err))
		}
	}
}
