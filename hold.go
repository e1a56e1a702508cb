package zklocks

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/slot"
)

type holdSlot = slot.Hold

// Hold is one holding of a lock of any recipe: from the return of Lock, TryLock, Acquire and the
// like to Release or to its loss. Its methods may be called from any goroutine. The zero Hold is
// lost, and so is a nil one. It must not be copied.
//
// A hold is lost when one of its nodes is deleted by another program, when its session expires,
// when the connection is closed, or when the session may have expired without the client's hearing
// of it. That a node was deleted is known once the first call of Held, Err, Lost or Context has set
// a watch.
type Hold struct{ holdSlot }

// grant is what the recipe has granted; nil: the zero Hold, or a nil one.
func (h *Hold) grant() slot.Grant {
	if h == nil {
		return nil
	}
	return slot.Get(&h.holdSlot)
}

// errNoGrant is the error of a Hold without a grant.
var errNoGrant = fmt.Errorf("%w: the Hold is nil, or no lock has returned it", hold.ErrLost)

// Release ends the hold and gives the lock back, with the last hold on it of this process where
// holds share a node. It starts the deletion of the node whatever ctx says, and repeats it until
// the node is gone, its session has ended or the connection is closed; ctx bounds only the wait for
// the answer. So
//
//	defer hold.Release(ctx)
//
// always gives the lock back, but drops the error, and with it a loss: [Do] returns that. The error
// matches [ErrLost] if the hold had been lost first, [ErrReleased] from the second call on, and
// ctx's error if the answer is still to come; zk.ErrNoAuth says that the server refuses to delete
// the node. ctx may come from [Hold.Context] of this hold, which ends here: then the wait ends with
// the parent of that context, or at the deadline of ctx. A nil ctx panics before anything has
// changed.
func (h *Hold) Release(ctx context.Context) error {
	if g := h.grant(); g != nil {
		return g.Release(ctx)
	}
	return errNoGrant
}

// Held reports whether the lock is still held: not released, not lost, and its session not expired
// by the local clocks. It is local and cheap. In a process that was stopped for too long the first
// call returns false. The call that sets the watch on the node may still return true when the node
// has been deleted: use [Hold.Verify] where that matters.
func (h *Hold) Held() bool { return h.Err() == nil }

// Err returns nil while the lock is held, as reported by [Hold.Held], and then what ended the hold:
// an error that matches [ErrLost] and has the cause, or [ErrReleased].
func (h *Hold) Err() error {
	if g := h.grant(); g != nil {
		return g.State().Look()
	}
	return errNoGrant
}

// closed is the channel of the zero Hold.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lost returns a channel that is closed when the lock is lost, and stays open when it is released.
// It is closed before this process deletes the node of a lost hold, after which another process can
// hold the lock.
func (h *Hold) Lost() <-chan struct{} {
	if g := h.grant(); g != nil {
		return g.State().Lost()
	}
	return closed
}

// ReleaseRequested returns a channel that is closed when a client asks the holder to give the lock
// up, by [Conn.RequestRelease] or Curator's Revoker, also when it had asked before the lock was
// granted. Nothing is forced: the holder decides whether and when it calls Release. When the hold
// has ended the channel means nothing any more. That of the zero Hold is nil and never closes.
//
// The first call has the node read and watched, in the background: a hold that never calls it makes
// no request for it. What is asked is the node. So holds that share one are asked together: those
// of readers of one value, those on one reentrant lock, and with rwlock.WithHandoff those of the
// next holders of the process, too. A hold of [All] is asked by a request to any of its nodes.
// Downgrade makes another node, which can be asked as well. A client that may not read its own node
// hears of no request.
func (h *Hold) ReleaseRequested() <-chan struct{} {
	if g := h.grant(); g != nil {
		return g.ReleaseRequested()
	}
	return nil
}

// Context returns a context that ends with parent or with the hold. Its context.Cause then matches
// [ErrLost] or [ErrReleased]. The context of a reentrant lock carries the ownership: a call of Lock
// with it enters again.
//
// Make it from the context of the work, not from one that bounds the wait for the lock: that would
// end the work, too.
func (h *Hold) Context(parent context.Context) context.Context {
	if g := h.grant(); g != nil {
		return g.Context(parent)
	}
	ctx, cancel := context.WithCancelCause(parent)
	cancel(errNoGrant)
	return ctx
}

// ValidUntil returns the instant at which the lock counts as lost unless a server answers before;
// until then no other process can hold it, unless a program deletes the node. It is the zero time
// when the hold has ended.
//
// It moves on with each heartbeat that is answered, every three tenths of the session timeout or
// so: call it again when a timer that was set by it has fired, and do not end work by
// context.WithDeadline at it. A program that needs a while to stop can begin before the loss. To
// decide whether to go on, call Held, which reads more than one clock.
func (h *Hold) ValidUntil() time.Time {
	if g := h.grant(); g != nil {
		return g.Deadline()
	}
	return time.Time{}
}

// Token returns the fencing token, the czxid of the node: it is larger than that of every
// conflicting hold before, forever, also when the directory was deleted and made again. A store
// that refuses smaller tokens than it has seen is safe from holders that do not know yet that they
// have lost the lock. Holds that share a node have the same token: refuse what is smaller, not what
// is equal. Where several hold at once, as with a semaphore of more than one permit, it orders the
// grants and fences nothing.
func (h *Hold) Token() int64 {
	if g := h.grant(); g != nil {
		return g.Token()
	}
	return 0
}

// Multi makes a transaction of ZooKeeper that takes place only while the lock is held: it puts a
// check of each node of the hold in front of ops. So writes to ZooKeeper itself are fenced without
// a gap. Response i is that of ops[i]. The operations have whole paths: use [Conn.Path], or a
// connection with [WithChroot] writes outside of it.
//
// The error matches [ErrLost] or [ErrReleased] when the hold has ended; zk.ErrNoNode means that a
// node of the caller's is missing, and not that the lock is lost. Any other refusal is that of the
// first operation that failed. In both cases none has taken place. Bad input is an error at once: a
// value that is no operation, the flags of containers and of nodes with a time to live, whose
// results the client cannot read, and more than 1,000,000 bytes.
//
// It waits for a connection as long as ctx lives; with the context of the hold, as long as that.
// When the answer is lost it is not repeated. Then the error matches that of ctx or
// zk.ErrConnectionClosed and none of the above, and says that the transaction may have taken place.
// It may still be under way when the hold is released: where the node stays, with shared reads and
// with rwlock.WithHandoff, it may take place after that.
func (h *Hold) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if g := h.grant(); g != nil {
		return g.Multi(ctx, ops...)
	}
	return nil, errNoGrant
}

// Guard returns ops behind checks that fail with zk.ErrNoNode once a node of the hold is gone, for
// programs that call zk.Conn.Multi themselves:
//
//	conn.Client().Multi(a.Guard(b.Guard(ops...)...)...) // while both a and b are held
//
// [Hold.Multi] is what most need. Downgrade makes another node, and so ends the guards that were
// taken before.
func (h *Hold) Guard(ops ...any) []any {
	checks := []*zk.CheckVersionRequest{{Path: "/zookeeper/no hold", Version: -1}} // that of the zero Hold fails
	if g := h.grant(); g != nil {
		checks = g.Guard()
	}
	guarded := make([]any, 0, len(checks)+len(ops))
	for _, check := range checks {
		guarded = append(guarded, check)
	}
	return append(guarded, ops...)
}

// Verify asks a quorum of the ensemble whether the nodes of the hold still exist, so a server that
// is behind cannot answer wrongly. The error matches [ErrLost] or [ErrReleased] when the hold has
// ended, ctx's error when there was no answer, and zk.ErrNoAuth without the right READ on a node of
// the hold.
func (h *Hold) Verify(ctx context.Context) error {
	if g := h.grant(); g != nil {
		return g.Verify(ctx)
	}
	return errNoGrant
}
