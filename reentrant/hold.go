package reentrant

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
)

// Hold is one of the holds on the lock, from the return of Lock to Unlock or to
// the loss of the lock. Its methods may be called from any goroutine.
type Hold struct {
	owner *owner // the goroutine that took it
	part  queue.Part
}

func (h *Hold) mutex() *Mutex { return h.owner.grant.mutex }

// Unlock ends this hold. The last one gives the lock back: it starts the deletion
// of the node whatever ctx says, and repeats it until the node is gone, its
// session has ended or the connection is closed; ctx bounds only the wait for
// the answer. So
//
//	defer hold.Unlock(ctx)
//
// is always right. The error matches [ErrLost] if the lock had been lost first,
// [ErrReleased] from the second call on, and ctx's error if the answer is still
// to come. ctx may come from [Hold.Context] of this hold, which ends here: then the
// wait ends with the parent of that context, or at the deadline of ctx.
func (h *Hold) Unlock(ctx context.Context) error {
	ctx, stop := h.part.Bound(ctx)
	defer stop()
	err := h.part.End()
	if err == hold.ErrReleased {
		return h.mutex().wrap("unlock", err)
	}
	if h.mutex().unhold(h.owner) {
		if last := h.part.Place.Unlock(ctx); err == nil {
			err = last
		}
	}
	h.part.Released(err)
	return h.mutex().wrap("unlock", err)
}

// Held reports whether the lock is still held: this hold not unlocked, the lock
// not lost, and its session not run out by the local clocks. It is local and
// cheap. In a process that was stopped for too long the first look says false. That
// somebody has deleted the node is known once the first call of Held, Lost or
// Context has set a watch, so that call may still say true: ask Verify where it
// matters.
func (h *Hold) Held() bool { return h.part.Life().Look() == nil }

// Lost returns a channel that is closed when the lock is lost, and stays open
// when it is unlocked. The lock is lost when its node is deleted by anyone, its
// session expires, the connection is closed, or the session may have expired
// without our hearing of it.
func (h *Hold) Lost() <-chan struct{} { return h.part.Life().Lost() }

// Deadline returns the instant at which the lock will be taken for lost if
// nothing more is heard from the servers; until then nobody else can have it, unless
// somebody deletes the node. It moves on with each heartbeat that is answered,
// every three tenths of the session timeout or so: look again when a timer that was set
// by it has fired. So whoever needs a while to stop, say to end another process,
// can begin before the loss. To decide whether to go on, ask Held, which looks at
// more than one clock.
//
// known is false when the hold has ended, and on a connection that zkconn did not
// make.
func (h *Hold) Deadline() (deadline time.Time, known bool) { return h.part.Deadline() }

// ownerKey finds the hold that a context carries for a lock.
type ownerKey struct{ m *Mutex }

// Context returns a context that ends with parent or with the hold. Its
// context.Cause then matches [ErrLost] or [ErrReleased]. Whoever calls Lock with
// it re-enters.
func (h *Hold) Context(parent context.Context) context.Context {
	return &holdContext{h.part.Life().Context(parent), h}
}

// holdContext is the context of a hold's life, with the hold in it.
type holdContext struct {
	context.Context
	hold *Hold
}

func (c *holdContext) Value(key any) any {
	if key == (ownerKey{c.hold.mutex()}) {
		return c.hold
	}
	return c.Context.Value(key)
}

// Token returns the fencing token, the czxid of the node, which all holds on one
// grant share: it is larger than that of every holder before, for ever, also
// when the directory was made anew. A store that refuses smaller tokens than it
// has seen is safe from holders that do not know yet that they have lost the
// lock.
func (h *Hold) Token() int64 { return h.part.Place.Token() }

// Guard returns a check to put first in a zk Multi: the transaction then fails
// with zk.ErrNoNode once the lock is gone. It fences writes to ZooKeeper itself
// without a gap. Any other error than the server's own says nothing of the lock.
func (h *Hold) Guard() *zk.CheckVersionRequest { return h.part.Place.Guard() }

// Verify asks a quorum of the ensemble whether the node still exists, which a
// server that is behind cannot answer wrongly. The error matches [ErrLost] or
// [ErrReleased] when the hold has ended, and ctx's error when there was no answer.
func (h *Hold) Verify(ctx context.Context) error {
	return h.mutex().wrap("verify", h.part.Verify(ctx))
}
