package zklocks

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

type holdSlot = slot.Hold

// Hold is a lock that a caller holds, from the return of Lock, TryLock, Acquire and the like until
// it is released or lost. Its methods may be called from any goroutine. It must not be copied. A
// nil *Hold and the zero Hold are lost. If a program drops a Hold without releasing it, the lock
// remains held: a garbage collection reports that, see [observe.Leaked].
//
// A hold is lost when its session expires or may have expired unnoticed, when another program
// deletes one of its nodes, or when the connection is closed. The first call of Held, Err, Lost or
// Context sets a watch on the nodes; without it, a deletion is noticed only by Verify, Multi and
// Release.
type Hold struct{ holdSlot }

// hold returns the recipe's hold, or nil for a nil or zero Hold.
func (h *Hold) hold() *queue.Hold {
	if h == nil {
		return nil
	}
	return slot.Get(&h.holdSlot)
}

// errNoHold is the error of the zero Hold.
var errNoHold = fmt.Errorf("%w: the Hold is nil, or no lock has returned it", hold.ErrLost)

// Release ends the hold and releases the lock. If several holds share a node, the last Release
// deletes the node.
//
// Release starts the deletion of the node also if ctx is canceled, and repeats it until the node is
// gone, its session has ended or the connection is closed. ctx bounds only the wait for the answer.
// If no server answers, Release also returns when the lock would be lost (at [Hold.ValidUntil]):
// the error then matches [ErrLost] and says that the release is not confirmed. So
//
//	defer hold.Release(ctx)
//
// always releases the lock, but drops the error, which may report a loss: [Do] returns it. A
// program that exits after a Release whose ctx was canceled may leave the lock held until the
// session expires: call [Conn.Close] first.
//
// The error matches
//   - [ErrLost] if the hold had been lost before, or is lost before a server has answered;
//   - [ErrReleased] if Release had been called before;
//   - ctx's error if there was no answer yet;
//   - zk.ErrNoAuth if the server refuses to delete the node. Then the deletion is repeated after
//     seconds, later every minute, until the server does it or the session ends.
//
// Release cancels the contexts that [Hold.Context] of this hold has returned. If ctx is such a
// context, Release still waits for the answer, until the parent of ctx is canceled or the deadline
// of ctx has passed. A nil ctx panics before anything has changed.
func (h *Hold) Release(ctx context.Context) error {
	defer runtime.KeepAlive(h) // h must not be reported as leaked while it is being released
	if own := h.hold(); own != nil {
		return own.Release(ctx)
	}
	return errNoHold
}

// Held reports whether the lock is still held: not released, not lost, and its session not expired
// by the local clocks. It is local and cheap. If the process was paused for too long, the first
// call after the pause returns false. The call that sets the watch may return true although the
// node has been deleted: use [Hold.Verify] if that matters.
func (h *Hold) Held() bool { return h.Err() == nil }

// Err returns nil while the lock is held, as reported by [Hold.Held]. After that it returns what
// ended the hold: an error that matches [ErrLost] and names the cause, or [ErrReleased].
func (h *Hold) Err() error {
	if own := h.hold(); own != nil {
		return own.State().Settle()
	}
	return errNoHold
}

// closed is the channel of the zero Hold.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lost returns a channel that is closed when the lock is lost. It remains open when the lock is
// released. If a lost hold's session survives, this process deletes the node after it has closed
// the channel.
func (h *Hold) Lost() <-chan struct{} {
	if own := h.hold(); own != nil {
		return own.State().Lost()
	}
	return closed
}

// ReleaseRequested returns a channel that is closed when a client asks the holder to release the
// lock, by [Conn.RequestRelease] or Curator's Revoker, also if it asked before the lock was
// granted. Nothing is forced: the holder decides whether and when it calls Release. After the end
// of the hold the channel has no meaning. The zero Hold returns nil.
//
// The first call reads and watches the node, in the background; a hold that never calls it sends no
// request for it. The client must have the right to read its own node.
//
// A request is made to a node, so all holds that share the node are asked: readers of one value,
// the holds of one reentrant lock, and with rwlock.WithHandoff and WithMaxIdle the next holders of
// the process, too. A hold of [All] is asked by a request to any of its nodes. Downgrade creates
// another node, which can be asked again.
func (h *Hold) ReleaseRequested() <-chan struct{} {
	if own := h.hold(); own != nil {
		return own.ReleaseRequested()
	}
	return nil
}

// Context returns a context that is canceled when parent is canceled and when the hold ends: its
// context.Cause then matches [ErrLost] or [ErrReleased]. The context of a reentrant lock carries
// the ownership: Lock with it enters the lock again.
//
// Derive it from the context of the work, not from a context that bounds the wait for the lock,
// which would cancel the work, too. Each call keeps a few hundred bytes until parent is canceled or
// the hold ends: if a hold lasts long, call Context once.
func (h *Hold) Context(parent context.Context) context.Context {
	if own := h.hold(); own != nil {
		return own.Context(parent)
	}
	ctx, cancel := context.WithCancelCause(parent)
	cancel(errNoHold)
	return ctx
}

// ValidUntil returns the instant at which the lock is lost unless a server answers before. Until
// then no other process can hold the lock, unless a program deletes the node. After the hold has
// ended it returns the zero time.
//
// Do not pass it to context.WithDeadline: each answered heartbeat extends it, about every fifth of
// the session timeout. A program that needs a while to stop can set a timer to begin stopping
// before the loss, and call ValidUntil again when the timer fires. To decide whether to continue,
// call Held, which reads more than one clock.
func (h *Hold) ValidUntil() time.Time {
	if own := h.hold(); own != nil {
		return own.Deadline()
	}
	return time.Time{}
}

// Token returns the fencing token, the czxid of the node. It is larger than the token of every
// earlier conflicting hold, forever, even if the directory was deleted and created again. A store
// that refuses smaller tokens than it has seen is safe from holders that have lost the lock and
// still write.
//
// Holds that share a node have the same token, as shared reads, rwlock.WithHandoff and WithMaxIdle
// do: refuse smaller tokens, not equal ones. If several callers hold at once, as with a semaphore
// of more than one permit, the token orders the grants and does not fence the holders from each
// other.
func (h *Hold) Token() int64 {
	if own := h.hold(); own != nil {
		return own.Token()
	}
	return 0
}

// Multi sends a ZooKeeper transaction that takes place only while the lock is held: it puts a check
// of each node of the hold in front of ops. So writes to ZooKeeper itself are fenced without a gap.
// Response i belongs to ops[i]. The operations need whole paths: use [Conn.Path], or a connection
// with [WithChroot] writes outside of the chroot.
//
// These errors mean that no operation took place:
//   - [ErrLost] or [ErrReleased]: the hold has ended;
//   - zk.ErrNoNode: a node of the program's own is missing;
//   - any other refusal: it belongs to the first operation that failed;
//   - bad input, which is not sent: a value that is not an operation, the flags of containers and
//     of nodes with a time to live, whose results the client cannot read, and more than 1,000,000
//     bytes.
//
// Multi waits for a connection until ctx is canceled; with the context of the hold, until the hold
// ends. If the answer is lost, the transaction is not repeated: the error matches ctx's error or
// zk.ErrConnectionClosed, none of the errors above, and says that the transaction may have taken
// place. With shared reads, rwlock.WithHandoff and WithMaxIdle the node may remain when the hold is
// released. If that happens while Multi runs, the transaction may take place after the release.
func (h *Hold) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if own := h.hold(); own != nil {
		return own.Multi(ctx, ops...)
	}
	return nil, errNoHold
}

// Guard returns ops behind checks that fail with zk.ErrNoNode once a node of the hold is gone, for
// programs that call zk.Conn.Multi themselves:
//
//	conn.Client().Multi(a.Guard(b.Guard(ops...)...)...) // while both a and b are held
//
// Most programs need only [Hold.Multi]. Downgrade creates another node, so earlier guards fail
// after it.
func (h *Hold) Guard(ops ...any) []any {
	checks := []*zk.CheckVersionRequest{{Path: "/zookeeper/no hold", Version: -1}} // for the zero Hold: a check that always fails
	if own := h.hold(); own != nil {
		checks = own.Guard()
	}
	guarded := make([]any, 0, len(checks)+len(ops))
	for _, check := range checks {
		guarded = append(guarded, check)
	}
	return append(guarded, ops...)
}

// Verify sends a quorum request that checks the nodes of the hold, so the result is right even if
// the server lags behind the others. The error matches [ErrLost] or [ErrReleased] if the hold has
// ended, ctx's error if there was no answer, and zk.ErrNoAuth if the client lacks READ on a node of
// the hold.
func (h *Hold) Verify(ctx context.Context) error {
	if own := h.hold(); own != nil {
		return own.Verify(ctx)
	}
	return errNoHold
}

// String returns what the hold is for, its path and its token, as in "write /jobs/nightly, token
// 7". It does not report whether the lock is still held.
func (h *Hold) String() string {
	if own := h.hold(); own != nil {
		return own.Info().String()
	}
	return "no lock"
}

// LogValue returns a group for package log/slog: path, kind, node and token, and the number of
// permits of a semaphore.
func (h *Hold) LogValue() slog.Value {
	if own := h.hold(); own != nil {
		return own.Info().LogValue()
	}
	return slog.StringValue("no lock")
}
