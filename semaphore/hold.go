package semaphore

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
)

// Hold is the permits of one Acquire, from its return to Release or to their
// loss. Its methods may be called from any goroutine.
type Hold struct {
	semaphore *Semaphore
	place     *queue.Place
	call      *queue.Call
}

// Release gives all the permits of the hold back. It starts the deletion of the
// nodes whatever ctx says, and repeats it until they are gone, their session has
// ended or the connection is closed; ctx bounds only the wait for the answer. So
//
//	defer hold.Release(ctx)
//
// is always right. The error matches [ErrLost] if the hold had been lost first,
// [ErrReleased] from the second call on, and ctx's error if the answer is still
// to come. ctx may come from [Hold.Context] of this hold, which ends here: then the
// wait ends with the parent of that context, or at the deadline of ctx.
func (h *Hold) Release(ctx context.Context) error {
	err := h.place.Unlock(ctx)
	h.call.Released(err)
	return h.semaphore.wrap("release", err)
}

// Held reports whether the permits are still held: not released, not lost, and
// their session not run out by the local clocks. It is local and cheap. In a
// process that was stopped for too long the first look says false. That
// somebody has deleted a node is known once the first call of Held, Lost or
// Context has set a watch, so that call may still say true: ask Verify where it
// matters.
func (h *Hold) Held() bool { return h.place.Life().Look() == nil }

// Lost returns a channel that is closed when the permits are lost, and stays
// open when they are released. They are lost when one of their nodes is deleted
// by anyone, the session expires, the connection is closed, or the session may
// have expired without our hearing of it.
func (h *Hold) Lost() <-chan struct{} { return h.place.Life().Lost() }

// Deadline returns the instant at which the permits will be taken for lost if
// nothing more is heard from the servers; until then nobody else can have them, unless
// somebody deletes the nodes. It moves on with each heartbeat that is answered,
// every three tenths of the session timeout or so: look again when a timer that was set
// by it has fired. So whoever needs a while to stop, say to end another process,
// can begin before the loss. To decide whether to go on, ask Held, which looks at
// more than one clock.
//
// known is false when the hold has ended, and on a connection that zkconn did not
// make.
func (h *Hold) Deadline() (deadline time.Time, known bool) { return h.place.Deadline() }

// Context returns a context that ends with parent or with the hold. Its
// context.Cause then matches [ErrLost] or [ErrReleased].
func (h *Hold) Context(parent context.Context) context.Context {
	return h.place.Life().Context(parent)
}

// Token returns the czxid of the nodes, which grows from one Acquire to the next,
// for ever. With one permit it is a fencing token. With more it is none: holders
// stand side by side, and a smaller token does not mean that its hold is over.
func (h *Hold) Token() int64 { return h.place.Token() }

// Guard returns a check to put first in a zk Multi: the transaction then fails
// with zk.ErrNoNode once the first of the permits is gone. It fences writes to
// ZooKeeper itself without a gap.
func (h *Hold) Guard() *zk.CheckVersionRequest { return h.place.Guard() }

// Verify asks a quorum of the ensemble whether all nodes still exist, which a
// server that is behind cannot answer wrongly. The error matches [ErrLost] or
// [ErrReleased] when the hold has ended, and ctx's error when there was no answer.
func (h *Hold) Verify(ctx context.Context) error {
	return h.semaphore.wrap("verify", h.place.Verify(ctx))
}
