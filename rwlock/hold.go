package rwlock

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/session"
)

// Hold is one holding of the lock, from the return of Lock or RLock to Unlock or
// to its loss. Its methods may be called from any goroutine.
type Hold struct {
	mutex *RWMutex
	part  queue.Part
	party *party // of those who read together; nil when for writing
}

func newHold(m *RWMutex, place *queue.Place, party *party, call *queue.Call) *Hold {
	h := &Hold{mutex: m, party: party}
	h.part.Begin(place)
	h.part.Granted(call)
	return h
}

// Unlock gives the lock back. It starts the deletion of the node whatever ctx
// says, and repeats it until the node is gone, its session has ended or the
// connection is closed; ctx bounds only the wait for the answer. So
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
		return h.mutex.wrap("unlock", err)
	}
	if left := h.leave(ctx); err == nil {
		err = left
	}
	h.part.Released(err)
	return h.mutex.wrap("unlock", err)
}

// leave gives the place back if nobody else of this process holds by it.
func (h *Hold) leave(ctx context.Context) error {
	if h.party != nil {
		return h.party.leave(ctx)
	}
	return h.mutex.writes.unlock(ctx, h.part.Place)
}

// Downgrade turns a hold for writing into one for reading, in place and in one
// transaction: no writer slips in between, and none that waits behind is
// overtaken. The hold keeps its token; guards taken before fail from now on.
// ctx bounds the wait for the answer; the downgrade itself runs to its end.
//
// The error matches [ErrLost] or [ErrReleased] when the hold has ended, and says
// so when it is for reading already; zk.ErrNoAuth when a right is missing: WRITE on
// the lock node, CREATE and DELETE on its directory.
func (h *Hold) Downgrade(ctx context.Context) error {
	err := h.part.Look()
	if err == nil {
		err = session.Ended(ctx) // or a call that does nothing would still end the hand-overs
	}
	if err == nil {
		err = h.mutex.writes.withdraw(&h.part)
	}
	if err == nil {
		err = h.part.Place.Downgrade(ctx, h.mutex.kinds.write, h.mutex.kinds.read)
	}
	if end := h.part.Look(); err != nil && end != nil {
		err = end // ctx may be the hold's own
	}
	return h.mutex.wrap("downgrade", err)
}

// Held reports whether the lock is still held: not released, not lost, and its
// session not run out by the local clocks. It is local and cheap. In a process
// that was stopped for too long the first look says false. That
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

// Context returns a context that ends with parent or with the hold. Its
// context.Cause then matches [ErrLost] or [ErrReleased].
func (h *Hold) Context(parent context.Context) context.Context {
	return h.part.Life().Context(parent)
}

// Token returns the fencing token, the czxid of the node: it is larger than that
// of every conflicting hold before, for ever, also when the directory was made
// anew. A store that refuses smaller tokens than it has seen is safe from
// holders that do not know yet that they have lost the lock.
func (h *Hold) Token() int64 { return h.part.Place.Token() }

// Guard returns a check to put first in a zk Multi: the transaction then fails
// with zk.ErrNoNode once the lock is gone. It fences writes to ZooKeeper itself
// without a gap. Any other error than the server's own says nothing of the lock.
func (h *Hold) Guard() *zk.CheckVersionRequest { return h.part.Place.Guard() }

// Verify asks a quorum of the ensemble whether the node still exists, which a
// server that is behind cannot answer wrongly. The error matches [ErrLost] or
// [ErrReleased] when the hold has ended, and ctx's error when there was no answer.
func (h *Hold) Verify(ctx context.Context) error {
	return h.mutex.wrap("verify", h.part.Verify(ctx))
}
